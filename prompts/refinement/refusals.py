"""Refusals of a refinement's tools. Each names a remedy."""

from collections.abc import Sequence
from typing import Final

from mnemic.prompts.conversation import single_line
from mnemic.prompts.refinement.answers import bracketed, bracketed_entries
from mnemic.state.refinement import LedgerEntry

#: Maximum characters of a name, which no fence encloses here.
_MAX_NAME_CHARS: Final = 40
ANOTHER_MEMORY: Final = "another memory"
ONE_MEMORY: Final = "a merge takes at least two memories: use update_memory for a single one"
NO_TEXT: Final = "the text is empty or repeats itself: write what the memories say, once"
CHANGED_LINES: Final = (
    "others read these memories in the words of their authors: keep whole lines as they are, or delete a memory"
)
SEVERAL_AUTHORS: Final = (
    "others read each of these memories under the name of its author: merge memories of one author only"
)


def unknown(numbers: Sequence[int]) -> str:
    """Return the refusal of numbers that were not shown, or of memories that are gone."""
    return f"there is no memory {bracketed(numbers)}: use numbers of the ledger whose memories still exist"


def named_twice(numbers: Sequence[int]) -> str:
    """Return the refusal of numbers that a call names more than once."""
    return f"{bracketed(numbers)} is named more than once: name each memory once"


def is_protected(numbers: Sequence[int]) -> str:
    """Return the refusal to change protected memories."""
    return f"{bracketed(numbers)} is protected: leave it as it is, and out of the call"


def changed_meanwhile(number: int) -> str:
    """Return the refusal of a memory that another run changed since it was shown."""
    return f"[{number}] was changed by somebody else meanwhile: read it again with search_memories, then decide"


def is_consolidation(number: int) -> str:
    """Return the refusal to merge, delete or protect the consolidation."""
    return f"[{number}] is the consolidation: only update_memory can change it"


def duplicate(name: str) -> str:
    """Return the refusal of a text that another memory has.

    Args:
        name: number of that memory, or `ANOTHER_MEMORY`.
    """
    return f"{name} already says exactly this: delete the duplicate, or write another text"


def unchanged(number: int) -> str:
    """Return the refusal of an update with the text that the memory has."""
    return f"[{number}] already says exactly this"


def too_large(max_bytes: int) -> str:
    """Return the refusal of a text that no memory can hold."""
    return f"a memory holds at most {max_bytes} bytes: merge fewer memories at once"


def too_long(tokens: int, max_tokens: int) -> str:
    """Return the refusal of a text that is longer than the memories that it replaces."""
    return f"the text has {tokens} tokens, what it replaces has {max_tokens}: use fewer words"


def removes_too_many(limit: int, numbers: Sequence[int]) -> str:
    """Return the refusal of an edit that removes more memories than a session may."""
    return f"a session may remove {limit} memories and no more: keep what {bracketed(numbers)} says, in fewer words"


def protects_too_much(number: int, protected: int, limit: int) -> str:
    """Return the refusal of a protection, with the protected tokens now and at most."""
    return f"[{number}] does not fit: {protected} tokens are protected, and at most {limit} may be"


def several_people(people: Sequence[Sequence[LedgerEntry]]) -> str:
    """Return the refusal to merge memories about different people.

    It names the person with most of the memories last, or all people if there is no such person.

    Args:
        people: the memories of each person.
    """
    largest, *others = sorted(people, key=len, reverse=True)
    is_clear = len(largest) > len(others[0])
    named = others if is_clear else [largest, *others]
    subjects = ", ".join([_about(group) for group in named])
    rest = f", the others about {_name(largest)}" if is_clear else ""
    names = {_name(group) for group in people}
    namesakes = " (not the same person, though the name is)" if len(names) < len(people) else ""
    return f"{subjects}{rest}{namesakes}: merge memories about one person only"


def _about(group: Sequence[LedgerEntry]) -> str:
    verb = "is" if len(group) == 1 else "are"
    return f"{bracketed_entries(group)} {verb} about {_name(group)}"


def _name(group: Sequence[LedgerEntry]) -> str:
    return single_line(group[0].subject[:_MAX_NAME_CHARS])
