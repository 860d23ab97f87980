"""Refusals of explicit writes, as a model or a caller reads them. Each names a remedy."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from uuid import UUID

from mnemic.state.checking import nearest, quoted
from mnemic.state.kinds import Kind, State

UNKNOWN_ID: Final = "no memory of this user or session has this id: search for it, and take the id from there"
PROTECTED: Final = "this memory is protected: only an administrator can unprotect it"
#: Refusals of `forget`.
SHARED_TO_FORGET: Final = (
    "this memory is shared with others, so no conversation may forget it: its author can unshare it"
)
CONSOLIDATION_TO_FORGET: Final = (
    "this is a consolidation, which is rewritten: forget or correct the memories that it summarizes"
)
#: Refusals of `correct`, the first ones by the kind of a memory that is derived from others.
DERIVED: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "consolidation": "this is a consolidation, which is rewritten: remember what is right as a core memory",
        "journal": "this records a refinement, so it cannot be corrected: undo the refinement if it was wrong",
    }
)
ABSORBED: Final = "this reflection is part of a consolidation: remember what is right as a core memory"
SHARED_TO_CORRECT: Final = (
    "this memory is shared with others, and the new text may not be: a shared text is a whole sentence that the user "
    "typed, with nothing personal or private in it. Remember it for this user alone"
)
NO_STEPS: Final = "content: write a procedure as its title and, below it, a line for each step"
#: Refusals of `remember`.
NO_CORE: Final = "kind: this role reads no core memories, so it may not write one; use the kind fact"
NO_OWNER: Final = "user_id: it is missing, and a memory that is not shared belongs to a user; give the identity one"
REPEATED_STEPS: Final = "steps: the procedure repeats itself; write each step once, as one instruction"
#: Refusals of `update`.
SHARED_TO_UPDATE: Final = "this memory is shared with others: only an identity with teaches_agent may change it"


def not_writable(category: str, writable: Sequence[str]) -> str:
    """Return the refusal of a category that the role may not write."""
    allowed = ", ".join(writable) or "none"
    return f"category: {quoted(category)} is none that this role may write{nearest(category, writable)}; use {allowed}"


def no_category(writable: Sequence[str]) -> str:
    """Return the refusal of a memory without a category."""
    return f"category: it is missing; use {', '.join(writable) or 'none'}"


def no_single_group(number: int) -> str:
    """Return the refusal of the scope `group` for an identity with this number of groups."""
    if not number:
        return "scope: the identity is in no group; give it group_ids, or use the scope user"
    return f"scope: the identity is in {number} groups; give it the one group_id that the memory is for"


def closed(state: State, successor: UUID | None, act: str) -> str:
    """Return the refusal to change a memory that is no longer in force.

    Args:
        state: the state of the memory.
        successor: the memory that took its place, if there is one.
        act: the refused act as an imperative, such as `update`.
    """
    if successor:
        return f"this memory was replaced by {successor}: {act} that one"
    if state == "soft_deleted":
        return f"this memory was forgotten: undo that before you {act} it, or remember what is right"
    return f"this memory is no longer in force ({state.replace('_', ' ')}): remember what is right"


def category_of_memory(category: str) -> str:
    """Return the refusal to correct a memory of a category that the role may not write."""
    return f"this role may not write the category {category}: forget the memory if it is wrong"


def limit_reached(limit: int, done: str) -> str:
    """Return the refusal of a session that has reached a limit of the day.

    Args:
        limit: the limit.
        done: participle of the acts that are limited, such as `forgotten`.
    """
    return f"the limit is reached: this session has had {limit} memories {done} today (UTC); continue tomorrow"


def switched_off(kind: Kind, setting: str) -> str:
    """Return the refusal of a kind that the agent does not keep."""
    return f"kind: this agent keeps no memory of the kind {kind}, since its setting {setting} is off"


def unusable(problem: str) -> str:
    """Return the refusal of a text, with the advice about its problem."""
    return f"content cannot be kept as it is written: {problem}"
