"""The tools of a refinement, as its model reads them, and what they answer."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, Field

from mnemic.prompts.described import Arguments
from mnemic.prompts.refine import render_missing
from mnemic.state.refinement import LedgerEntry

#: The tool that ends a session.
COMPLETING: Final = "complete_refinement"
ENDED: Final = "The refinement has ended."

Handle = Annotated[int, Field(ge=1, lt=2**31, description="Its number in the ledger.")]
#: Longer ones are refused before they are read; what a memory may hold is far less.
_Text = Field(max_length=100_000)


class _Search(Arguments):
    query: Annotated[str, Field(max_length=2000, description="Words to look for; empty for all memories.")] = ""
    after: Annotated[date | None, Field(description="Only memories since this day or later, as 2026-03-02.")] = None
    before: Annotated[date | None, Field(description="Only memories since before this day.")] = None


class _Merge(Arguments):
    ids_to_merge: Annotated[list[Handle], Field(description="The numbers of the memories.", max_length=500)]
    new_content: Annotated[str, _Text, Field(description="The one text that replaces them.")]


class _Update(Arguments):
    id: Handle
    content: Annotated[str, _Text, Field(description="The new text.")]


class _Memory(Arguments):
    id: Handle


class _Summary(Arguments):
    summary: Annotated[str, _Text, Field(description="One or two sentences on what you did.")]


class ToolText(NamedTuple):
    """A tool as a model reads it."""

    description: str
    arguments: type[BaseModel]


TOOLS: Final = {
    "search_memories": ToolText(
        "Find memories by words, and by the day since which they hold. Shows each with its number.", _Search
    ),
    "consolidate_memories": ToolText(
        "Replace two or more memories by one text that is no longer than they are together. It keeps their earliest "
        "date. The answer names the details that the new text lacks.",
        _Merge,
    ),
    "update_memory": ToolText(
        "Rewrite one memory in no more words than it has. The answer names the details that the new text lacks.",
        _Update,
    ),
    "delete_memory": ToolText(
        "Delete one obsolete memory. Only a few may be deleted in a session; merge what is merely long.", _Memory
    ),
    "protect_memory": ToolText(
        "Protect a memory for good: afterwards only an administrator can change, merge or delete it. For promises, "
        "laws of your own, and what would do harm if it were lost.",
        _Memory,
    ),
    COMPLETING: ToolText("End the refinement.", _Summary),
}


def usage(core: Sequence[LedgerEntry], target: int) -> str:
    """How much there is: what every answer to an edit ends with."""
    tokens = sum(entry.tokens for entry in core)
    return f"Now {tokens:,} tokens in {len(core)} memories; target {target:,}."


def merged(replaced: Sequence[LedgerEntry], new: LedgerEntry, lost: Sequence[int], missing: Sequence[str]) -> str:
    """The answer to a merge.

    Args:
        replaced: the memories that the new one replaces.
        new: as it is shown from now on.
        lost: numbers of those of which it keeps hardly anything.
        missing: details that it lacks.
    """
    numbers = bracketed([entry.handle for entry in replaced])
    return f"{numbers} became [{new.handle}]: {_change(replaced, new, lost, missing)}"


def updated(old: LedgerEntry, new: LedgerEntry, lost: Sequence[int], missing: Sequence[str]) -> str:
    """The answer to a rewriting; as `merged`."""
    return f"[{new.handle}] is changed: {_change([old], new, lost, missing)}"


def _change(replaced: Sequence[LedgerEntry], new: LedgerEntry, lost: Sequence[int], missing: Sequence[str]) -> str:
    sizes = f"{sum(entry.tokens for entry in replaced)} tokens, now {new.tokens}."
    losing = f" It keeps hardly anything of {bracketed(lost)}: that counts as removed." if lost else ""
    return f"{sizes}{losing} {render_missing(missing, new.handle)}"


def deleted(number: int, left: int) -> str:
    """The answer to a deletion, with how many more there may be."""
    return f"[{number}] is deleted. You may remove {left} more."


def protected(number: int) -> str:
    """The answer to a protection."""
    return f"[{number}] is protected from now on."


def bracketed(numbers: Sequence[int]) -> str:
    """`[3], [7]`, each once."""
    return ", ".join(f"[{number}]" for number in dict.fromkeys(numbers))
