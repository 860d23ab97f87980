"""What audits, rollbacks and erasures take and return: ids, codes and states.

Never what a memory says, but to the person whose own it is, and of an export.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from mnemic.state.kinds import Kind, ResultKind, State

Problem = Literal[
    "hash", "chain", "gap", "head", "contents", "erased", "replay", "relation", "entry", "cut", "rewritten", "anchor"
]

EXPLANATIONS: Final[Mapping[Problem, str]] = {
    "hash": "this row of the history is not as it was written",
    "chain": "the row before this one is not the one it was written after",
    "gap": "rows of the history are missing before this one",
    "head": "the head names another row than the newest of the history",
    "contents": "what the history holds of this change is gone, or not as it was written",
    "erased": "what was erased is back in the history",
    "replay": "this memory is not as its history left it",
    "relation": "a relation of this memory is not as the history left it",
    "entry": "what a search sees of this memory is not what its state allows",
    "cut": "this row was anchored, and the history has none of this number any more",
    "rewritten": "this row was anchored with another hash: the history was written anew",
    "anchor": "this line of the anchors is none, or was not signed with this key",
}


@dataclass(frozen=True, kw_only=True)
class AuditProblem:
    """One thing that is not as it should be, and where."""

    problem: Problem
    #: None: a line of a file with anchors that names nobody.
    agent_id: str | None
    revision: int | None = None
    memory_id: UUID | None = None
    #: The line of the file with anchors.
    line: int | None = None

    @property
    def explanation(self) -> str:
        """What it means, in a sentence."""
        return EXPLANATIONS[self.problem]


@dataclass(frozen=True, kw_only=True)
class Head:
    """The newest row of an agent's history."""

    revision: int
    hash: bytes


@dataclass(frozen=True, kw_only=True)
class RollbackOptions:
    """How a rollback is to be done."""

    #: Undo later operations on the same memories too; a restore has none.
    cascade: bool = False
    #: Leave memories as they are whose contents were erased.
    skip_erased: bool = False
    #: Change nothing, only return what would be done and what stands against it.
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One act on memories, as its history records it."""

    id: UUID
    #: The seqs of its first and its last visible row.
    first_revision: int
    last_revision: int
    ts: datetime
    actor: str
    actor_kind: str
    #: Who brought words of somebody else that were formed in it.
    submitted_by: list[str]
    reason: str
    session_id: str | None
    undo_of: UUID | None
    #: How often each event happened.
    events: dict[str, int]
    scope_keys: list[str]
    token_delta: int
    #: Changes that a rollback in steps has still to make; 0: it is whole.
    left: int


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """One memory that a rollback changes, or that prevents it."""

    id: UUID
    kind: Kind
    scope_key: str
    before: State
    #: None: as far as is known it was not there yet, or nothing is known of it.
    after: State | None


@dataclass(frozen=True, kw_only=True)
class LaterOperation:
    """An operation that changed a memory after the one to be undone."""

    id: UUID
    reason: str


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """What a rollback did, or would do."""

    #: The operation that did it; None: a dry run, a refusal, or nothing was to be changed.
    op_id: UUID | None
    changes: tuple[StateChange, ...] = ()
    #: Later operations on the same memories; undone too with `cascade`.
    later: tuple[LaterOperation, ...] = ()
    #: Memories whose contents of back then were erased; left as they are with `skip_erased`.
    erased: tuple[StateChange, ...] = ()
    #: Living memories that say what a restored one would say, or hold the place of a restored consolidation.
    twins: tuple[StateChange, ...] = ()
    #: Protected memories that only an administrator may roll back.
    protected: tuple[StateChange, ...] = ()
    #: Relations that go, or come back.
    relations: int = 0

    @property
    def changes_nothing(self) -> bool:
        """Whether all of it is as it was to be."""
        return not self.changes and not self.relations

    def refused_by(self, options: RollbackOptions) -> Literal["protected", "later", "twins", "erased"] | None:
        """What stands against it, the gravest first; None: nothing does."""
        if self.protected:
            return "protected"
        if self.later and not options.cascade:
            return "later"
        if self.twins:
            return "twins"
        return "erased" if self.erased and not options.skip_erased else None


class PlanRow(NamedTuple):
    """One row of a plan, as the database returns it."""

    #: `change` and `relation`: to be done; `conflict`, `twin`, `erased`, `protected`: stands against it; `operation`:
    #: one that was named; `resumed`: the rollback that this call goes on with.
    part: str
    memory_id: UUID
    kind: Kind
    scope_key: str
    before: State
    after: State | None
    version: int
    #: The row of history after which the memory is to be as it was, None: it was not there yet; or that of a relation.
    revision: int
    is_orphan: bool
    #: When its turn is: what closes (0, 1), then what swaps places (2), then what comes back (3). None: a relation's.
    turn: int | None
    op_id: UUID
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a rollback would do as things stood when it was read; nothing holds them so."""

    rows: Sequence[PlanRow]
    #: What was asked for; the same again is the same call.
    request: Mapping[str, Any]
    #: A person's; None: an administrator's.
    keys: Sequence[str] | None

    @cached_property
    def resumed(self) -> UUID | None:
        """The rollback that the same call began and that was broken off."""
        return next((row.op_id for row in self.rows if row.part == "resumed"), None)

    @cached_property
    def todo(self) -> list[PlanRow]:
        """What it changes: memories and relations."""
        return [row for row in self.rows if row.part in ("change", "relation")]


@dataclass(frozen=True, kw_only=True)
class PastMemory:
    """A memory of a scope key at a past moment, without what it says."""

    id: UUID
    kind: Kind
    category: str
    #: `purged`: it was there, and what it said then was erased since.
    state: State
    tokens: int
    importance: int
    protected: bool


@dataclass(frozen=True, kw_only=True)
class Concerned:
    """A memory or a message that an erasure would take, or leave."""

    id: UUID
    kind: ResultKind
    scope_key: str
    #: What it says, where that is the person's own to read.
    content: str | None
    #: Why; None: it goes.
    stays: Literal["said by another", "shared", "rests on the same messages"] | None = None


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """What an erasure took; of a dry run, what it would take."""

    #: Memories that were erased by this call, and messages that it named.
    erased: tuple[UUID, ...] = ()
    #: How many messages were.
    messages: int = 0
    #: Memories and messages that are still to go: something is written as fast as it is erased. The next call goes on.
    left: int = 0
    #: When the erasure began that this call went on with; None: it began one.
    goes_on_from: datetime | None = None
    #: Of a dry run: what goes, and what stays and why.
    going: tuple[Concerned, ...] = ()
    staying: tuple[Concerned, ...] = ()
