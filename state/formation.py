"""Records of writing: what the nodes of formation hand to one another and to storage, and what is kept on purpose."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr

from mnemic.state.checking import WHOLE_CHARACTERS, Time
from mnemic.state.records import Message, NewMemory


class Inbox(NamedTuple):
    """The oldest unformed messages of a session, and what decides whether to form them."""

    messages: tuple[Message, ...]
    #: All that are pending, those beyond this batch included.
    pending: int
    #: Those of them that only a retry takes.
    quarantined: int
    #: All messages of the session, formed ones included.
    session_messages: int
    #: Time since the session's last message.
    idle: timedelta


@dataclass(frozen=True, kw_only=True)
class SimilarFact:
    """A living fact near a new one."""

    #: Place of the new fact in the question, from 0.
    place: int
    id: UUID
    #: 0 for a fact of the same batch, which is not stored yet.
    version: int
    scope_key: str
    subject: str
    subject_user_id: str | None
    category: str
    content: str
    dated: datetime
    #: A protected fact counts as known, and no decision may close it.
    protected: bool
    private: bool
    importance: int
    #: Cosine similarity of the two search texts; 0 where it was found by its words or its subject alone.
    similarity: float
    #: Another person who brought it.
    author: str | None = None
    #: Whole sentence that a member typed and that it rests on; None if unknown.
    said: str | None = None


@dataclass(frozen=True, kw_only=True)
class DuplicateDraft:
    """A new memory that was dropped because it is known."""

    new: NewMemory
    #: What it repeats, in which scope, and whether that was stored before this run.
    known_id: UUID
    scope_key: str
    is_stored: bool


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Which messages of a run are accounted for. What is not keeps its words."""

    #: Messages that a stored or known memory rests on.
    cited: frozenset[UUID] = frozenset()
    #: Those that a draft rests on which was refused or had to give way.
    open: frozenset[UUID] = frozenset()
    #: Whether each step has said that all others hold nothing; None: no step was asked.
    nothing_else: bool | None = None


class ExactDuplicate(NamedTuple):
    """The living memory that says what a new one says."""

    new_id: UUID
    id: UUID
    version: int
    protected: bool


#: Who may share it. Facts never belong to a session, and what is explicit shall outlive one.
ExplicitScope = Literal["user", "group", "agent"]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _in_order(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("is no list of texts")
    return value


class RememberRequest(_Request):
    """One fact, or one commitment that is always in context."""

    content: Annotated[StrictStr, Field(min_length=1, max_length=4000), WHOLE_CHARACTERS]
    category: Annotated[StrictStr, Field(max_length=128)]
    kind: Literal["fact", "core"] = "fact"
    importance: Annotated[int, Field(ge=1, le=5, strict=True)] = 3
    scope: ExplicitScope = "user"
    #: Said in confidence: it is never shared.
    private: StrictBool = False


class UpdateRequest(_Request):
    """What changes about a memory, not what it says. None leaves a value as it is."""

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
    #: When it ceases to hold, such as the day of a plan; maintenance closes it then.
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
    """What became of an explicit write."""

    #: The memory that says it now. None: the one that says it already is of a category that the role may not read.
    id: UUID | None
    #: Who shares it; of one that was known already, who would have.
    scope_key: str
    #: A living memory says the same: nothing was written.
    known: bool = False
    #: Living facts so near that it may replace one of them; nearest first.
    near: tuple[SimilarFact, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """Its figures as plain JSON, without any words."""
        return {"id": str(self.id) if self.id else None, "scope_key": self.scope_key, "known": self.known}


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """What became of a correction."""

    #: The memory that says it now; the corrected one itself where it said so before, and nothing was written. None: one
    #: of a category that the role may not read.
    id: UUID | None
    #: The one that was to be corrected.
    old_id: UUID
    scope_key: str
    #: A living memory said so already; if that is another one, it took the place.
    known: bool = False

    def as_row(self) -> dict[str, Any]:
        """Its figures as plain JSON, without any words."""
        new_id = str(self.id) if self.id else None
        return {"id": new_id, "old_id": str(self.old_id), "scope_key": self.scope_key, "known": self.known}
