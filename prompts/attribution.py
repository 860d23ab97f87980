"""The signature of a shared memory: one renderer for every prompt, answer of a tool and line of a command."""

from xml.sax.saxutils import escape

from mnemic.prompts.conversation import single_line
from mnemic.state.attribution import Attributable, Attribution, attribution_for
from mnemic.state.identity import display_name


def signature(attribution: Attribution | None) -> str:
    """Return the end of a line that names the author and quotes the typed sentence: ` (from Ana: "At nine.")`."""
    if attribution is None:
        return ""
    author = single_line(display_name(attribution.author))
    if not attribution.said:
        return f" (from {author})"
    return f' (from {author}: "{quotable(attribution.said)}")'


def signature_of_others(memory: Attributable, reader: str | None) -> str:
    """Return the signature for a prompt of a model step, or nothing for a memory that the reader submitted."""
    attribution = attribution_for(reader, memory)
    if attribution is None or attribution.author == reader:
        return ""
    return signature(attribution)


def quotable(text: str) -> str:
    """Return one escaped line that cannot end the quotation around it."""
    return escape(" ".join(text.split()), {'"': "&quot;"})
