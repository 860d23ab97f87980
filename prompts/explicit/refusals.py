"""Refusals of explicit writes, as a model or a caller reads them. Each names a remedy."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from uuid import UUID

from mnemic.state.checking import nearest, quoted
from mnemic.state.kinds import Kind, State

UNKNOWN_ID: Final = "no memory of this user or session has this id: search for it, and take the id from there"
PROTECTED: Final = "this memory is protected: only an administrator can lift that"
#: Refusals of `forget`.
SHARED_TO_FORGET: Final = "this memory is shared with others, and no conversation may take it from them"
CONSOLIDATION_TO_FORGET: Final = "this is the consolidation of everything: it is rewritten, not forgotten"
#: Refusals of `correct`, the first ones by the kind of a memory that is derived from others.
DERIVED: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "consolidation": "this is the consolidation of everything: remember what is right as a core memory beside it",
        "journal": "this tells what a refinement did, which nobody rewrites: undo the refinement where it went wrong",
    }
)
ABSORBED: Final = "this has gone into a consolidation: remember what is right as a core memory beside that"
SHARED_TO_CORRECT: Final = (
    "this memory is shared with others, and the new text may not be: that takes the user's own words, with nothing "
    "personal or private in them. Remember it for this user alone"
)
NO_STEPS: Final = "a procedure is written as its title and, below it, a line for each step"
#: Refusals of `remember`.
NO_CORE: Final = "this role does not read core memories and may not write them: choose the kind fact"
NO_OWNER: Final = "a memory belongs to a user unless it may be shared: give the identity a user_id"
REPEATED_STEPS: Final = "the procedure repeats itself: write each step once, as an order to whoever follows it"
#: Refusals of `update`.
SHARED_TO_UPDATE: Final = (
    "this memory is shared with others: give the identity teaches_agent to change it for all of them"
)


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
    return f"this role may not write into the category {category}: forget the memory where it is wrong"


def limit_reached(limit: int, done: str) -> str:
    """Return the refusal of a session that has reached a limit of the day.

    Args:
        limit: the limit.
        done: participle of the acts that are limited, such as `forgotten`.
    """
    return f"this session has had {limit} memories {done} today, and that is the most"


def switched_off(kind: Kind, setting: str) -> str:
    """Return the refusal of a kind that the agent does not keep."""
    return f"this agent keeps no memory of the kind {kind}: its setting {setting} is off"


def unusable(problem: str) -> str:
    """Return the refusal of a text, with the advice about its problem."""
    return f"content cannot be kept as it is written: {problem}"
