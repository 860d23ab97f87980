"""How the tests of the offline model talk: everything is said on Wednesday 4 March 2026."""

from collections.abc import Callable
from datetime import UTC, datetime

from mnemic.prompts.conversation import Line
from mnemic.prompts.extract_facts import FactDraft
from mnemic.prompts.extract_reflections import ExtractReflectionsOutput
from mnemic.state.records import Role

SAID_AT = datetime(2026, 3, 4, 10, tzinfo=UTC)

FactsOf = Callable[..., list[FactDraft]]
ReflectionsOf = Callable[..., ExtractReflectionsOutput]


def lines_of(texts: tuple[str, ...], speaker: str, role: Role = "user") -> tuple[Line, ...]:
    """One message of one speaker for each text; `Teo: text` is said by Teo."""
    lines = []
    for number, text in enumerate(texts, start=1):
        name, colon, rest = text.partition(": ")
        known = colon and name.isalpha() and name.istitle()
        author: Role = "assistant" if known and name == "Assistant" else role
        lines.append(
            Line(
                number=number,
                speaker=name if known else speaker,
                role=author,
                said_at=SAID_AT,
                content=rest if known else text,
            )
        )
    return tuple(lines)
