"""Records of formations and of explicit writes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr

from mnemic.state.checking import WHOLE_CHARACTERS, Time
from mnemic.state.kinds import ExplicitKind
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


#: Scopes of explicit writes, which outlive a session.
ExplicitScope = Literal["user", "group", "agent"]
#: Reason why a memory has not the group's or the agent's scope that was requested. `no_group`: the identity has not one
#: group. `not_teacher`: the identity does not teach the agent. `settings`: `share_with_group` or `share_with_agent`.
#: `prompt`: the text looks like a part of a prompt. `not_typed`: the user did not type this sentence as a whole.
NotShared = Literal[
    "private", "personal_category", "contact_data", "no_group", "not_teacher", "settings", "prompt", "not_typed"
]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _in_order(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of texts")
    return value


class RememberRequest(_Request):
    """One memory in words, of an explicit kind."""

    content: Annotated[StrictStr, Field(min_length=1, max_length=4000), WHOLE_CHARACTERS]
    category: Annotated[StrictStr, Field(max_length=128)]
    kind: ExplicitKind = "fact"
    importance: Annotated[int, Field(ge=1, le=5, strict=True)] = 3
    scope: ExplicitScope = "user"
    #: Confidential, and so never shared.
    private: StrictBool = False


class UpdateRequest(_Request):
    """New values of a memory, but not of its text. None leaves a value as it is."""

    pinned: StrictBool | None = None
    #: All of its tags; an empty list removes them.
    tags: (
        Annotated[
            tuple[Annotated[StrictStr, Field(min_length=1, max_length=60), WHOLE_CHARACTERS], ...],
            Field(max_length=20),
            BeforeValidator(_in_order),
        ]
        | None
    ) = None
    importance: Annotated[int, Field(ge=1, le=5, strict=True)] | None = None
    #: Time at which it ceases to hold, such as the day of a plan; maintenance closes it then.
    valid_until: Time | None = None


class ProcedureRequest(_Request):
    """How something is done, step by step."""

    title: Annotated[StrictStr, Field(min_length=1, max_length=120), WHOLE_CHARACTERS]
    #: A step is one sentence, as long as a fact may be.
    steps: Annotated[
        tuple[Annotated[StrictStr, Field(min_length=1, max_length=280), WHOLE_CHARACTERS], ...],
        Field(min_length=1, max_length=20),
        BeforeValidator(_in_order),
    ]
    scope: ExplicitScope = "user"


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """Result of an explicit write.

    Attributes:
        id: id of the memory with this text; None if that is of a category that the role may not read.
        scope_key: scope key of the memory, or of the one that would have been stored.
        known: whether an active memory has the same text, so that nothing was written.
        not_shared: reason why it is the user's own although another scope was requested; None if it has the requested
            scope.
        near: active facts that it may replace, nearest first.
    """

    id: UUID | None
    scope_key: str
    known: bool = False
    not_shared: NotShared | None = None
    near: tuple[SimilarFact, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """Return the result as plain JSON, without texts."""
        return {"id": self.id and str(self.id), "scope_key": self.scope_key, "known": self.known}


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """Result of a correction.

    Attributes:
        id: id of the memory with the new text; None if that is of a category that the role may not read. It is the
            corrected memory itself if that has this text already, so that nothing was written.
        old_id: id of the corrected memory.
        scope_key: scope key of the memory.
        known: whether an active memory had the text already; another one took the place of the corrected memory.
    """

    id: UUID | None
    old_id: UUID
    scope_key: str
    known: bool = False

    def as_row(self) -> dict[str, Any]:
        """Return the result as plain JSON, without texts."""
        new_id = self.id and str(self.id)
        return {"id": new_id, "old_id": str(self.old_id), "scope_key": self.scope_key, "known": self.known}
