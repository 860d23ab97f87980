"""One request to an agent's memory, the same as tool, method and command; what a search brings before ranking; and what
memories went through since a session was last told of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from mnemic.state.attribution import Attribution
from mnemic.state.checking import WHOLE_CHARACTERS
from mnemic.state.identity import Scope
from mnemic.state.kinds import ChangeEvent, Kind, ResultKind, Role, SearchType, State

#: Memories a search returns at most; a tool's default, which a model reads, and a method's.
MAX_TOP_K = 100
TOOL_TOP_K = 3
METHOD_TOP_K = 10
MAX_BUDGET_TOKENS = 8192
_SHORT = 128


Importance = Annotated[int, Field(ge=1, le=5, strict=True)]
Id = Annotated[StrictStr, Field(min_length=1, max_length=_SHORT)]
BudgetTokens = Annotated[int, Field(ge=1, le=MAX_BUDGET_TOKENS, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, populate_by_name=True, defer_build=True
    )


class MemoryFilters(_Part):
    """What narrows a request. A filter never widens: a foreign id finds what an unknown one finds, nothing."""

    #: Memories of this user's scope, or about this user.
    user_id: Id | None = None
    agent_id: Id | None = None
    #: The graph run that stored it.
    run_id: Id | None = None
    #: Who acted when it was stored; of a message, whose words they are.
    actor_id: Id | None = None
    #: The role that stored it; of a message, its speaker's (user, assistant, tool, other, attachment).
    role: Id | None = None
    pinned: StrictBool | None = None
    #: 1 to 5; a message counts as 2.
    importance_min: Importance | None = None
    importance_max: Importance | None = None
    #: Of a message, when it was said. From the one, before the other. Without an
    #: offset they are local times of the person; a day alone begins at midnight.
    updated_after: datetime | None = None
    updated_before: datetime | None = None

    def in_zone(self, zone: tzinfo) -> Self:
        """Return the filters with their local times in this time zone."""
        times = {"updated_after": self.updated_after, "updated_before": self.updated_before}
        local = {name: time.replace(tzinfo=zone) for name, time in times.items() if time and time.utcoffset() is None}
        return self.model_copy(update=local)


class MemoryQuery(_Part):
    """A request: what is looked for, where, and how much of it is wanted."""

    query: Annotated[StrictStr, Field(min_length=1, max_length=4000), WHOLE_CHARACTERS]
    #: None: every category the asking role may read; an empty list finds nothing.
    categories: (
        Annotated[tuple[Annotated[StrictStr, Field(max_length=_SHORT)], ...], Field(max_length=64, fail_fast=True)]
        | None
    ) = None
    filters: MemoryFilters = Field(default_factory=MemoryFilters)
    #: None: every scope of the identity.
    scopes: Annotated[tuple[Scope, ...], Field(max_length=4, fail_fast=True)] | None = None
    search_type: SearchType = "hybrid"
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, strict=True)] = TOOL_TOP_K
    #: The least cosine similarity of a result; one without a vector is left out.
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    returns: Annotated[Literal["bullets", "full"], Field(alias="return")] = "bullets"
    #: Tokens the results' texts may take.
    budget_tokens: BudgetTokens | None = None


class Candidate(NamedTuple):
    """What the search statement brings of one memory or message."""

    id: UUID
    kind: ResultKind
    category: str
    scope_key: str
    subject: str
    #: Who it is about, or who said it.
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
    #: Of a memory, who brought it; None if several did.
    author: str | None
    #: Of a message, its number in its session.
    place: int | None
    text: float | None
    similarity: float | None
    #: Both in one figure from 0 to 1; None: no candidate, but related to one.
    fused: float | None
    #: The messages a fact was formed from, as far as they are visible; asked for where messages are candidates.
    sources: Sequence[UUID] | None
    #: The memories that it replaced, as far as they are visible.
    supersedes: Sequence[UUID] = ()
    #: Role of a message.
    role: Role | None = None
    #: Of a memory, the typed sentence that it rests on.
    said: str | None = None
    #: Of a message in several pieces, the number of the one that fits the question best.
    piece: int = 0


#: Of a candidate: what it is related to, and how strongly.
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
    """A memory that changed, or took another's place, as it is now."""

    state: State
    category: str
    importance: int
    #: The beginning of its content.
    beginning: str
    #: What superseded it, or took it in.
    successor: UUID | None
    scope_key: str = ""
    kind: Kind | None = None
    author: str | None = None
    #: Typed sentence that it rests on, if that differs from its content; the beginning of a long one.
    said: str | None = None

    @property
    def content(self) -> str:
        """The text as far as it is known here."""
        return self.beginning


class Changes(NamedTuple):
    """What happened in the visible scope keys between two seqs of the agent's history."""

    #: Up to where the session was told before; None: it has never been told, so nothing is announced to it.
    since: int | None
    #: Up to where it will have been told.
    revision: int
    #: Oldest first.
    changes: tuple[Change, ...] = ()
    #: What they happened to, and what took its place, where it may be seen.
    known: Mapping[UUID, Known] = MappingProxyType({})
    #: Those of the changed memories that the session has shown; None without a session.
    shown: frozenset[UUID] | None = frozenset()


@dataclass(frozen=True, kw_only=True)
class Bullet:
    """What became of one memory."""

    sign: Sign
    category: str
    #: What the memory says, cut short; empty where that may not be said.
    text: str
    #: Memories that it has taken in.
    combined: int = 0
    #: 1 to 5; None: that may not be said either.
    importance: int | None = None
    #: Of a shared memory; None if it has no single author.
    attribution: Attribution | None = None
    #: Kind of a removed memory, whose text is not shown.
    kind: Kind | None = None

    @property
    def summary(self) -> str:
        """The text, or the kind of a removed memory."""
        if self.text:
            return self.text
        return f"{self.kind} that was shown before" if self.kind else "a memory whose words are not shown"


@dataclass(frozen=True, kw_only=True)
class Updates:
    """What happened to the memories that somebody sees."""

    #: Up to where it is told; ask from here on the next time.
    revision: int
    #: The most important first.
    bullets: tuple[Bullet, ...]


@dataclass(frozen=True, kw_only=True)
class Delta:
    """The delta header: what an agent is told before everything else."""

    since: int
    #: The most important.
    bullets: tuple[Bullet, ...]
    #: How many there would be of all memories that changed.
    total: int
    #: Changes behind all of them, oldest first.
    changes: tuple[Change, ...] = ()
    #: Memories whose text the bullets show.
    shown: tuple[UUID, ...] = ()
