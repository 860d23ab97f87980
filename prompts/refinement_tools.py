"""The knife as a model reads it: what each tool is for, its arguments, its answers and its refusals (seed C)."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Final

from pydantic import Field

from mnemic.prompts.conversation import as_data
from mnemic.prompts.described import Arguments
from mnemic.prompts.refine import render_ledger
from mnemic.state.refinement import Ended, LedgerEntry

SEARCH: Final = "Finds memories of yours by words and by when they began to hold. Shows each with its number."
CONSOLIDATE: Final = (
    "Replaces two or more memories by one text, which is not longer than they were together. It keeps their earliest "
    "date. Answers with the details that the new text lacks."
)
UPDATE: Final = "Says one memory in other words, not more of them. Answers with the details that the new text lacks."
DELETE: Final = "Takes one obsolete memory away. Only a few may go in a session; merge what is merely long."
PROTECT: Final = (
    "Makes a memory constitutional: nobody but an administrator can change, merge or delete it afterwards. For "
    "promises, laws of your own, and what would do harm if it were lost."
)
COMPLETE: Final = "Ends the refinement."

Handle = Annotated[int, Field(ge=1, lt=2**31, description="Its number in the ledger.")]
_DETAILS_NAMED: Final = 40
_DETAIL_CHARS: Final = 80


class SearchArguments(Arguments):
    """What is looked for."""

    query: Annotated[str, Field(max_length=2000, description="Words to look for; empty: all in the time given.")] = ""
    after: Annotated[date | None, Field(description="Held since this day or later, such as 2026-03-02.")] = None
    before: Annotated[date | None, Field(description="Held since before this day.")] = None


class ConsolidateArguments(Arguments):
    """What is merged, and into what."""

    ids_to_merge: Annotated[list[Handle], Field(description="The numbers of the memories.", max_length=500)]
    new_content: Annotated[str, Field(description="The one text that replaces them.", max_length=100_000)]


class UpdateArguments(Arguments):
    """What is said otherwise."""

    id: Handle
    content: Annotated[str, Field(description="The new text.", max_length=100_000)]


class OneArgument(Arguments):
    """Which memory."""

    id: Handle


class CompleteArguments(Arguments):
    """How it went."""

    summary: Annotated[str, Field(description="One or two sentences on what you did.", max_length=100_000)]


# -- answers


def usage(tokens: int, target: int, memories: int) -> str:
    """What there is after a call."""
    return f"Now {tokens:,} tokens in {memories} memories; target {target:,}."


def found(entries: Sequence[LedgerEntry]) -> str:
    """What a search found, as the ledger shows it; data, as that is."""
    return f"<found>\n{render_ledger(entries)}\n</found>" if entries else "Nothing was found."


def consolidated(
    merged: Sequence[int], new: int, before: int, after: int, lacking: Sequence[str], lost: Sequence[int]
) -> str:
    """A merge, the details that it lacks, and the memories that it took away."""
    return f"{_numbers(merged)} became [{new}]: {before} tokens, now {after}.{_lost(lost)}{_lacking(lacking, new)}"


def updated(handle: int, before: int, after: int, lacking: Sequence[str], lost: Sequence[int]) -> str:
    """Another text, and likewise."""
    return f"[{handle}] is changed: {before} tokens, now {after}.{_lost(lost)}{_lacking(lacking, handle)}"


def deleted(handle: int, left: int) -> str:
    """A deletion, and how many more there may be."""
    return f"[{handle}] is gone. {left} more may go."


def protected(handle: int) -> str:
    """A protection."""
    return f"[{handle}] is protected from now on."


def completed() -> str:
    """The end."""
    return "The refinement has ended."


def _lost(numbers: Sequence[int]) -> str:
    return f" It keeps hardly anything of {_numbers(numbers)}: that counts as taken away." if numbers else ""


def _lacking(details: Sequence[str], handle: int) -> str:
    if not details:
        return " It keeps every name, number, date and quotation."
    more = f" (and {len(details) - _DETAILS_NAMED} more)" if len(details) > _DETAILS_NAMED else ""
    named = "\n".join(map(_detail, details[:_DETAILS_NAMED]))
    return f" It lacks{more}:\n<lacking>\n{named}\n</lacking>\nPut back by update_memory of {handle} what still holds."


def _detail(detail: str) -> str:
    """On one line, clipped: a quotation may be whole sentences of somebody's."""
    line = " ".join(detail.split())
    return as_data(line if len(line) <= _DETAIL_CHARS else f"{line[:_DETAIL_CHARS]}…")


# -- refusals


def unknown(numbers: Sequence[int]) -> str:
    """Not in the ledger, or no longer."""
    return f"there is no memory {_numbers(numbers)}: take numbers of the ledger whose memories have not gone since"


def repeated(numbers: Sequence[int]) -> str:
    """Named twice."""
    return f"{_numbers(numbers)} is named more than once: name each memory once"


def too_few() -> str:
    """Nothing to merge."""
    return "a merge takes at least two memories: change a single one with update_memory"


def is_protected(numbers: Sequence[int]) -> str:
    """Constitutional."""
    return f"{_numbers(numbers)} is protected: leave it as it is, and name the others without it"


def is_consolidation(number: int) -> str:
    """The one living text."""
    return f"[{number}] is the consolidation of everything: it changes by update_memory alone"


def different_people(numbers: Sequence[int]) -> str:
    """About several persons."""
    return f"{_numbers(numbers)} are about different people: merge what is about one of them"


def changed(number: int) -> str:
    """Somebody else wrote it meanwhile."""
    return f"[{number}] was changed by somebody else meanwhile: see with search_memories how it reads now, then decide"


def no_text() -> str:
    """Nothing, or a loop."""
    return "the text is empty or repeats itself: write what the memories say, once"


def too_long(tokens: int, most: int) -> str:
    """Longer than what it replaces."""
    return f"the text has {tokens} tokens, what it replaces has {most}: say it in fewer words"


def too_large(most: int) -> str:
    """Longer than a memory may be."""
    return f"a memory holds at most {most} bytes: merge fewer memories at once"


def same_text(number: int) -> str:
    """Nothing to change."""
    return f"[{number}] says exactly this already"


def twin(number: int | None) -> str:
    """A living memory says it."""
    says = f"[{number}]" if number else "another memory"
    return f"{says} says exactly this already: delete what is superfluous, or write another text"


def no_more_removed(most: int, numbers: Sequence[int]) -> str:
    """Too much would be lost."""
    return f"a session may take away {most} memories and no more: keep what {_numbers(numbers)} say, in fewer words"


def no_more_protected(number: int, now: int, most: int) -> str:
    """Too much would stand still."""
    return f"[{number}] does not fit: {now} tokens are protected, and at most {most} may be"


def unreadable() -> str:
    """Arguments that are no object."""
    return "Refused: the arguments could not be read. Call again with complete JSON of the form the tool takes."


def no_such_tool(known: Sequence[str]) -> str:
    """A name of no tool."""
    return f"Refused: there is no such tool. These are there: {', '.join(known)}."


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(f"[{number}]" for number in dict.fromkeys(numbers))


def summary_too_long(most: int) -> str:
    """More than a summary."""
    return f"a summary has at most {most} characters: say it in a sentence or two"


# -- the outcome

_ENDS: Final[dict[Ended, str]] = {
    "completed": "",
    "finished": "",
    "steps": " It was ended at its limit of turns.",
    "tokens": " It was ended at its limit of tokens.",
    "time": " It was ended at its limit of time.",
}


def outcome(before: tuple[int, int], after: tuple[int, int], protected: int, ended: Ended) -> str:
    """One line of a refinement, such as `50 → 3 memories, about 2,000 tokens saved, 5 protected`.

    Args:
        before: memories and their tokens.
        after: likewise.
        protected: memories that the session protected.
        ended: why it ended.
    """
    parts = [f"{before[0]} → {after[0]} memories", f"about {before[1] - after[1]:,} tokens saved"]
    parts += [f"{protected} protected"] if protected else []
    return f"{', '.join(parts)}.{_ENDS[ended]}"
