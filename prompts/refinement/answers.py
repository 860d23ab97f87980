"""Answers of a refinement's tools. Text of memories in them is fenced as data."""

from collections.abc import Sequence
from typing import Final

from mnemic.prompts.conversation import as_data
from mnemic.prompts.refinement.refine import render_ledger
from mnemic.prompts.refinement.tools import COMPLETE
from mnemic.state.refinement import LedgerEntry, total_tokens

#: Maximum number of missing details, and of the lost words of a whole session, in one answer.
_MAX_DETAILS: Final = 40
#: Maximum number of an edit's lost words in one answer.
_MAX_WORDS: Final = 24
_MAX_CHARS: Final = 80
ENDED: Final = "The refinement has ended."
_PROTECTED: Final = "[{number}] is protected from now on."
_MEND: Final = "Put each back in the same word, unless it only tells that something was said; the rarest come first."


def searched(entries: Sequence[LedgerEntry]) -> str:
    """Return the answer to a search: the memories as in the ledger, fenced."""
    if not entries:
        return "Nothing was found."
    return f"<found>\n{render_ledger(entries)}\n</found>"


def changed(
    replaced: Sequence[LedgerEntry],
    new: LedgerEntry,
    lost: Sequence[int],
    details: Sequence[str],
    words: Sequence[str],
) -> str:
    """Return the answer to a merge, or to an update of one memory.

    Args:
        replaced: the memories that the new one replaces.
        new: the new memory.
        lost: numbers of the replaced memories of which it keeps hardly anything.
        details: names, numbers, dates and quotations that it lacks.
        words: further distinctive words that it lacks.
    """
    outcome = f"[{new.handle}] is changed"
    if len(replaced) > 1:
        outcome = f"{bracketed_entries(replaced)} became [{new.handle}]"
    sizes = f"{total_tokens(replaced)} tokens, now {new.tokens}."
    losing = f" It keeps hardly anything of {bracketed(lost)}: that counts as removed." if lost else ""
    missing = render_missing(details, new.handle)
    lacking = render_lost(words, limit=_MAX_WORDS, lead="It does not say any more")
    return f"{outcome}: {sizes}{losing} {missing} {lacking}".rstrip()


def deleted(number: int, removable: int, words: Sequence[str]) -> str:
    """Return the answer to a deletion.

    Args:
        number: of the memory.
        removable: number of memories that the session may still remove.
        words: distinctive words that no memory has any more.
    """
    return f"[{number}] is deleted. You may remove {removable} more. {render_lost(words, limit=_MAX_WORDS)}".rstrip()


def protected(number: int) -> str:
    """Return the answer to a protection."""
    return _PROTECTED.format(number=number)


def not_ended_yet(words: Sequence[str], core: Sequence[LedgerEntry], target: int) -> str:
    """Return the answer to the first attempt to end, if there is room for words that the session has lost."""
    return (
        f"Not ended yet. {render_lost(words, limit=_MAX_DETAILS)} There is room for it. "
        f"Then call {COMPLETE} again. {usage(core, target)}"
    )


def usage(core: Sequence[LedgerEntry], target: int) -> str:
    """Return the size of the context memories, the end of every answer to an edit."""
    return f"Now {total_tokens(core):,} tokens in {len(core)} memories; target {target:,}."


def render_missing(details: Sequence[str], number: int) -> str:
    """Return the details that a new text lacks, each on a line, for a quotation may be whole sentences.

    Args:
        details: the missing details.
        number: of the memory with the new text.
    """
    if not details:
        return "It keeps every name, number, date and quotation."
    lines = []
    for detail in details[:_MAX_DETAILS]:
        line = " ".join(detail.split())
        if len(line) > _MAX_CHARS:
            line = f"{line[:_MAX_CHARS]}…"
        lines.append(as_data(line))
    named = "\n".join(lines)
    more = f" (and {len(details) - _MAX_DETAILS} more)" if len(details) > _MAX_DETAILS else ""
    return (
        f"It lacks{more}:\n<missing>\n{named}\n</missing>\nPut back what still holds: update_memory with id {number}."
    )


def render_lost(words: Sequence[str], *, limit: int, lead: str = "No memory says any more") -> str:
    """Return lost words on one line, each with the words around it; empty without such words.

    Args:
        words: distinctive words, in phrases.
        limit: maximum number of words to name.
        lead: beginning of the answer.
    """
    if not words:
        return ""
    named = as_data("; ".join([word[:_MAX_CHARS] for word in words[:limit]]))
    more = f" (and {len(words) - limit} more)" if len(words) > limit else ""
    return f"{lead}{more}:\n<lost>\n{named}\n</lost>\n{_MEND}"


def bracketed(numbers: Sequence[int]) -> str:
    """Return `[3], [7]`, each number once."""
    return ", ".join([f"[{number}]" for number in dict.fromkeys(numbers)])


def bracketed_entries(entries: Sequence[LedgerEntry]) -> str:
    """Return the numbers of these memories as `bracketed` does."""
    return bracketed([entry.handle for entry in entries])
