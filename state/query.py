"""Requests to an agent's memory, the same for tool, method and command; candidates of a search; announced changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, model_validator

from mnemic.state.checking import WHOLE_CHARACTERS, field_name, nearest
from mnemic.state.identity import Attribution, Scope
from mnemic.state.kinds import ChangeEvent, Kind, ResultKind, Role, SearchType, State
from mnemic.state.own_names import OwnNames

#: Maximum number of results of a search, and the defaults of a tool, which a model reads, and of a method.
MAX_TOP_K: Final = 100
TOOL_TOP_K: Final = 3
METHOD_TOP_K: Final = 10
MAX_BUDGET_TOKENS: Final = 8192
_MAX_ID_LENGTH: Final = 128


Importance = Annotated[int, Field(ge=1, le=5, strict=True)]
Id = Annotated[StrictStr, Field(min_length=1, max_length=_MAX_ID_LENGTH)]
_Name = Annotated[StrictStr, Field(max_length=_MAX_ID_LENGTH)]
#: Maximum tokens of the search results of a call.
BudgetTokens = Annotated[int, Field(ge=1, le=MAX_BUDGET_TOKENS, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, populate_by_name=True, defer_build=True
    )


class MemoryFilters(_Part, metaclass=OwnNames):
    """Filters of a request. A filter never widens it: a foreign id has no results, as an unknown one."""

    #: Memories of this user's scope, or about this user.
    user_id: Id | None = None
    agent_id: Id | None = None
    #: Run of the graph that stored it.
    run_id: Id | None = None
    #: Actor that stored a memory; speaker of a message.
    actor_id: Id | None = None
    #: Role that stored a memory; role of a message's speaker (user, assistant, tool, other, attachment).
    role: Id | None = None
    pinned: StrictBool | None = None
    #: 1 to 5; a message counts as 2.
    importance_min: Importance | None = None
    importance_max: Importance | None = None
    #: Bounds of the last change of a memory, or of the time of a message: not before the first, and before the second.
    #: Without an offset they are local times of the person; a day alone begins at midnight.
    updated_after: datetime | None = None
    updated_before: datetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_known_names(cls, filters: Any) -> Any:
        for name in filters if isinstance(filters, dict) else ():
            if name not in cls.model_fields:
                near = nearest(str(name), cls.model_fields)
                names = ", ".join(cls.model_fields)
                raise ValueError(f"{field_name(str(name))}: there is no filter of this name{near}; use {names}")
        return filters

    def in_zone(self, zone: tzinfo) -> Self:
        """Return the filters with their local times in this time zone."""
        local: dict[str, datetime] = {}
        for name in ("updated_after", "updated_before"):
            time: datetime | None = getattr(self, name)
            if time and time.utcoffset() is None:
                local[name] = time.replace(tzinfo=zone)
        return self.model_copy(update=local)


class MemoryQuery(_Part):
    """A request: a question, with filters and limits of the results."""

    query: Annotated[StrictStr, Field(min_length=1, max_length=4000), WHOLE_CHARACTERS]
    #: None for every category that the role may read; an empty list has no results.
    categories: Annotated[tuple[_Name, ...], Field(max_length=64, fail_fast=True)] | None = None
    filters: MemoryFilters = Field(default_factory=MemoryFilters)
    #: None for every scope of the identity.
    scopes: Annotated[tuple[Scope, ...], Field(max_length=4, fail_fast=True)] | None = None
    search_type: SearchType = "hybrid"
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, strict=True)] = TOOL_TOP_K
    #: Minimum cosine similarity of a result; one without a vector is left out.
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    returns: Annotated[Literal["bullets", "full"], Field(alias="return")] = "bullets"
    #: Maximum number of tokens of the results' lines.
    budget_tokens: BudgetTokens | None = None


class Candidate(NamedTuple):
    """One memory or message that a search found, before ranking."""

    id: UUID
    kind: ResultKind
    category: str
    scope_key: str
    subject: str
    #: User that a memory is about; speaker of a message.
    user_id: str | None
    content: str
    dated: datetime
    importance: int
    session_id: str | None
    pinned: bool
    tags: Sequence[str]
    state: State
    created_at: datetime
    updated_at: datetime
    #: Author of a memory; None if it has several.
    author: str | None
    #: Number of a message in its session.
    place: int | None
    text: float | None
    similarity: float | None
    #: Both in one figure from 0 to 1; None for a memory that is only related to a candidate.
    fused: float | None
    #: Visible messages that a fact was formed from; None if no message is a candidate.
    sources: Sequence[UUID] | None
    #: Visible memories that it replaced.
    supersedes: Sequence[UUID] = ()
    #: Role of a message.
    role: Role | None = None
    #: Typed sentence that a memory rests on.
    said: str | None = None
    #: Number of the piece of a message that fits the question best.
    piece: int = 0


#: Memories related to a candidate, each with the strength of the relation, by the candidate's id.
Links = Mapping[UUID, Sequence[tuple[UUID, float]]]


Sign = Literal["+created", "↑updated", "↔merged", "~soft-deleted", "−deleted", "⟲restored"]
#: Sign under which each event of the history is announced.
SIGNS: Final[Mapping[ChangeEvent, Sign]] = {
    "ADD": "+created",
    "UPDATE": "↑updated",
    "SUPERSEDE": "↑updated",
    "ABSORB": "↔merged",
    "MERGE": "↔merged",
    "DELETE": "~soft-deleted",
    "TTL": "~soft-deleted",
    "PURGE": "−deleted",
    "ERASE": "−deleted",
    "RESTORE": "⟲restored",
}
#: Reasons of changes that an agent makes by its tools; they are not announced in the session that made them.
EXPLICIT_REASONS: Final = ("remember", "correct", "forget", "remember_procedure")
#: Characters of an announced text: three of them stay below 150 tokens.
MAX_TEXT_LENGTH: Final = 150
#: Characters of a typed sentence that an announcement shows; a memory with a longer one is announced without its text.
MAX_SENTENCE_LENGTH: Final = 2 * MAX_TEXT_LENGTH


class Change(NamedTuple):
    """One audited change of one memory."""

    revision: int
    event: ChangeEvent
    memory_id: UUID
    category: str


class Known(NamedTuple):
    """Current state of a memory that changed or took another's place."""

    state: State
    category: str
    importance: int
    #: The beginning of its content.
    beginning: str
    #: Memory that superseded or absorbed it.
    successor: UUID | None
    scope_key: str = ""
    kind: Kind | None = None
    author: str | None = None
    #: Typed sentence that it rests on, if that differs from its content; the beginning of a long one.
    said: str | None = None

    @property
    def content(self) -> str:
        """Beginning of the content."""
        return self.beginning


class Changes(NamedTuple):
    """Changes in the visible scope keys between two revisions of the agent's history."""

    #: Revision of the session's last recall; None for a first recall, which announces nothing.
    since: int | None
    #: Revision up to which this recall announces changes.
    revision: int
    #: Oldest first.
    changes: tuple[Change, ...] = ()
    #: Visible memories among the changed ones and those that took their places.
    known: Mapping[UUID, Known] = MappingProxyType({})
    #: Changed memories that the session has shown; None without a session.
    shown: frozenset[UUID] | None = frozenset()


@dataclass(frozen=True, kw_only=True)
class Bullet:
    """Announcement of the changes of one memory.

    Attributes:
        sign: sign of the change: added, changed or removed.
        category: category of the memory.
        text: beginning of the memory's content; empty if the reader may not see it.
        combined: number of memories that it absorbed.
        importance: 1 to 5; None if the reader may not see the content.
        attribution: attribution of a shared memory; None if it has no single author.
        kind: kind of a removed memory, whose text is not shown.
    """

    sign: Sign
    category: str
    text: str
    combined: int = 0
    importance: int | None = None
    attribution: Attribution | None = None
    kind: Kind | None = None

    @property
    def summary(self) -> str:
        """The text, or the kind of a removed memory."""
        if self.text:
            return self.text
        if self.kind:
            return f"{self.kind} that was shown before"
        return "a memory whose words are not shown"


@dataclass(frozen=True, kw_only=True)
class Updates:
    """Changes of the memories that a user may see.

    Attributes:
        revision: revision up to which changes are listed: the start of the next request.
        bullets: the most important first.
    """

    revision: int
    bullets: tuple[Bullet, ...]


@dataclass(frozen=True, kw_only=True)
class Delta:
    """The delta header, which precedes everything else in a context."""

    since: int
    #: Bullets of the most important changes.
    bullets: tuple[Bullet, ...]
    #: Number of bullets for all changed memories.
    total: int
    #: Changes behind all of them, oldest first.
    changes: tuple[Change, ...] = ()
    #: Memories whose text the bullets show.
    shown: tuple[UUID, ...] = ()
