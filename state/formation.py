"""Records of formations."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from mnemic.state.records import Message, NewMemory


class Inbox(NamedTuple):
    """Oldest unformed messages of a session, with figures that decide whether they are due."""

    messages: tuple[Message, ...]
    #: Number of all pending messages, also of those behind this batch.
    pending: int
    #: Number of the pending messages that only a retry takes.
    quarantined: int
    #: Number of all messages of the session, also of formed ones.
    session_messages: int
    #: Time since the session's last message.
    idle: timedelta


@dataclass(frozen=True, kw_only=True)
class SimilarFact:
    """An active fact near a new one.

    Attributes:
        place: place of the new fact in the query, from 0.
        id: id of the fact.
        version: 0 for a fact of the same batch, which is not stored yet.
        scope_key: scope key that it belongs to, such as `user:ana`.
        subject: person or thing that it is about.
        subject_user_id: user id of that person; None without an account.
        category: its category.
        content: its text.
        dated: begin of its validity.
        protected: a new fact may repeat a protected one, but no decision may close it.
        private: whether it is confidential, and so never shared.
        importance: 1 trivial to 5 vital.
        similarity: cosine similarity of the two search texts; 0 if only words or the subject are similar.
        author: author, if that is another person.
        said: whole sentence that a member typed and that it rests on; None if unknown.
    """

    place: int
    id: UUID
    version: int
    scope_key: str
    subject: str
    subject_user_id: str | None
    category: str
    content: str
    dated: datetime
    protected: bool
    private: bool
    importance: int
    similarity: float
    author: str | None = None
    said: str | None = None


@dataclass(frozen=True, kw_only=True)
class DuplicateDraft:
    """A new memory that was dropped because it repeats another one."""

    new: NewMemory
    #: Id and scope key of the repeated memory.
    known_id: UUID
    scope_key: str
    #: Whether that memory was stored before this run.
    is_stored: bool


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Messages of a run that became a memory or were judged empty; the others keep their words."""

    #: Messages that a memory of the run, or a repeated memory, rests on.
    cited: frozenset[UUID] = frozenset()
    #: Messages that a refused or dropped draft rests on.
    open: frozenset[UUID] = frozenset()
    #: Whether each step declared that all other messages hold nothing; None before the first step.
    nothing_else: bool | None = None


class ExactDuplicate(NamedTuple):
    """An active memory with the same text as a new one."""

    new_id: UUID
    id: UUID
    version: int
    protected: bool


#: Reason why a memory has not the group's or the agent's scope that was requested. `no_group`: the identity has not one
#: group. `not_teacher`: the identity does not teach the agent. `settings`: `share_with_group` or `share_with_agent`.
#: `prompt`: the text looks like a part of a prompt. `not_typed`: the user did not type this sentence as a whole.
NotShared = Literal[
    "private", "personal_category", "contact_data", "no_group", "not_teacher", "settings", "prompt", "not_typed"
]
