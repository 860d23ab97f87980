"""Arguments and results of audits, rollbacks and erasures: ids, codes and states.

Contents are returned to the person concerned only, and are in an export only.
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
    "hash": "this row of the history was changed after it was written",
    "chain": "the row before this one is not its original predecessor",
    "gap": "rows of the history are missing before this one",
    "head": "the head names another row than the newest of the history",
    "contents": "the contents of this change are missing from the history, or were changed",
    "erased": "erased contents are back in the history",
    "replay": "this memory differs from its history",
    "relation": "a relation of this memory differs from the history",
    "entry": "the search entry of this memory does not fit its state",
    "cut": "this row was anchored, and the history has no row of this number any more",
    "rewritten": "this row was anchored with another hash: the history was rewritten",
    "anchor": "this line of the file is no anchor, or was not signed with this key",
}


@dataclass(frozen=True, kw_only=True)
class AuditProblem:
    """One problem of the audit, with its place."""

    problem: Problem
    #: None for a line of a file with anchors that names no agent.
    agent_id: str | None
    revision: int | None = None
    memory_id: UUID | None = None
    #: The line of the file with anchors.
    line: int | None = None

    @property
    def explanation(self) -> str:
        """The problem in a sentence."""
        return EXPLANATIONS[self.problem]


@dataclass(frozen=True, kw_only=True)
class Head:
    """The newest row of an agent's history."""

    revision: int
    hash: bytes


@dataclass(frozen=True, kw_only=True)
class RollbackOptions:
    """Options of a rollback."""

    #: Undo later operations on the same memories too; a restore has none.
    cascade: bool = False
    #: Leave memories with erased contents unchanged.
    skip_erased: bool = False
    #: Change nothing, and return the changes and the obstacles.
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation on memories, as the history records it."""

    id: UUID
    #: Revisions of its first and its last visible row.
    first_revision: int
    last_revision: int
    ts: datetime
    actor: str
    actor_kind: str
    #: Actors that submitted words of other people that were formed in it.
    submitted_by: list[str]
    reason: str
    session_id: str | None
    undo_of: UUID | None
    #: Number of rows by event.
    events: dict[str, int]
    scope_keys: list[str]
    token_delta: int
    #: Number of changes that a rollback in steps has not made yet; 0 if it is complete.
    left: int


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """One memory that a rollback changes, or that prevents it."""

    id: UUID
    kind: Kind
    scope_key: str
    before: State
    #: None if the memory did not exist, or its state is unknown.
    after: State | None


@dataclass(frozen=True, kw_only=True)
class LaterOperation:
    """An operation that changed a memory after the operation to undo."""

    id: UUID
    reason: str


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """The result of a rollback; of a dry run, the result that it would have."""

    #: The operation of the rollback; None for a dry run, a refusal, or a rollback without changes.
    op_id: UUID | None
    changes: tuple[StateChange, ...] = ()
    #: Later operations on the same memories; undone too with `cascade`.
    later: tuple[LaterOperation, ...] = ()
    #: Memories whose former contents were erased; `skip_erased` leaves them unchanged.
    erased: tuple[StateChange, ...] = ()
    #: Active memories with the text of a restored one, or in the place of a restored consolidation.
    twins: tuple[StateChange, ...] = ()
    #: Protected memories that only an administrator may roll back.
    protected: tuple[StateChange, ...] = ()
    #: Number of relations that are removed or restored.
    relations: int = 0

    @property
    def changes_nothing(self) -> bool:
        """Whether there is nothing to change."""
        return not self.changes and not self.relations

    def refused_by(self, options: RollbackOptions) -> Literal["protected", "later", "twins", "erased"] | None:
        """Return the gravest obstacle; None without one."""
        if self.protected:
            return "protected"
        if self.later and not options.cascade:
            return "later"
        if self.twins:
            return "twins"
        if self.erased and not options.skip_erased:
            return "erased"
        return None


class PlanRow(NamedTuple):
    """One row of a plan, as the database returns it."""

    #: `change` and `relation` are steps; `conflict`, `twin`, `erased` and `protected` are obstacles; `operation` is a
    #: requested operation; `resumed` is the rollback that this call continues; `removal` is a memory that returns to an
    #: earlier deletion.
    part: str
    memory_id: UUID
    kind: Kind
    scope_key: str
    before: State
    after: State | None
    version: int
    #: Revision to which the memory returns, the revision of a relation, or the first undone change of a removal.
    revision: int
    is_orphan: bool
    #: Order of the steps: closures (0, 1), exchanges (2), returns (3). None for a relation.
    turn: int | None
    op_id: UUID
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The changes and obstacles of a rollback at the time of reading; later changes are possible."""

    rows: Sequence[PlanRow]
    #: The request; an equal request continues a broken-off rollback.
    request: Mapping[str, Any]
    #: Scope keys of a person; None for an administrator.
    keys: Sequence[str] | None

    @cached_property
    def resumed(self) -> UUID | None:
        """The broken-off rollback of an equal call; None without one."""
        for row in self.rows:
            if row.part == "resumed":
                return row.op_id
        return None

    @cached_property
    def todo(self) -> list[PlanRow]:
        """The rows that change a memory or a relation."""
        return [row for row in self.rows if row.part in ("change", "relation")]


@dataclass(frozen=True, kw_only=True)
class PastMemory:
    """A memory of a scope key at a past time, without its text."""

    id: UUID
    kind: Kind
    category: str
    #: `purged` if the memory existed then and its contents were erased since.
    state: State
    tokens: int
    importance: int
    protected: bool


@dataclass(frozen=True, kw_only=True)
class Concerned:
    """A memory or a message that an erasure would remove or keep."""

    id: UUID
    kind: ResultKind
    scope_key: str
    #: Its text; None if the person may not read it.
    content: str | None
    #: Reason to keep it; None if it is removed.
    stays: Literal["said by another", "shared", "rests on the same messages"] | None = None


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """The result of an erasure; of a dry run, the items that it would remove and keep."""

    #: Memories that this call erased, and the messages that it named.
    erased: tuple[UUID, ...] = ()
    #: Number of erased messages; of a dry run, of the messages among `going`.
    messages: int = 0
    #: Number of memories and messages that remain, because others write meanwhile. The next call continues.
    left: int = 0
    #: Start of the earlier erasure that this call continued; None for a new one.
    goes_on_from: datetime | None = None
    #: Items that a dry run would remove, and items that it would keep.
    going: tuple[Concerned, ...] = ()
    staying: tuple[Concerned, ...] = ()
