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
    """One problem of the audit, with its place.

    Attributes:
        problem: code of the problem.
        agent_id: the agent; None for a line of a file with anchors that names no agent.
        revision: row of the history; None without one.
        memory_id: the memory; None without one.
        line: line of the file with anchors; None for another problem.
    """

    problem: Problem
    agent_id: str | None
    revision: int | None = None
    memory_id: UUID | None = None
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
    """One operation on memories, as the history records it.

    Attributes:
        id: id of the operation.
        first_revision: revision of its first visible row.
        last_revision: revision of its last visible row.
        ts: time of its begin.
        actor: person or program that made it.
        actor_kind: kind of the actor.
        submitted_by: actors that submitted words of other people that were formed in it.
        reason: code of the reason.
        session_id: its session; None without one.
        undo_of: operation that it undoes; None for another one.
        events: number of rows by event.
        scope_keys: scope keys of its memories.
        token_delta: change of the tokens in force.
        left: number of changes that a rollback in steps has not made yet; 0 if it is complete.
    """

    id: UUID
    first_revision: int
    last_revision: int
    ts: datetime
    actor: str
    actor_kind: str
    submitted_by: list[str]
    reason: str
    session_id: str | None
    undo_of: UUID | None
    events: dict[str, int]
    scope_keys: list[str]
    token_delta: int
    left: int


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """One memory that a rollback changes, or that prevents it.

    Attributes:
        id: id of the memory.
        kind: kind of the memory.
        scope_key: scope key that it belongs to, such as `user:ana`.
        before: its present state.
        after: its state after the rollback; None if the memory did not exist, or its state is unknown.
    """

    id: UUID
    kind: Kind
    scope_key: str
    before: State
    after: State | None


@dataclass(frozen=True, kw_only=True)
class LaterOperation:
    """An operation that changed a memory after the operation to undo.

    Attributes:
        id: id of the operation.
        reason: code of the reason.
    """

    id: UUID
    reason: str


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """The result of a rollback; of a dry run, the result that it would have.

    Attributes:
        op_id: the operation of the rollback; None for a dry run, a refusal, or a rollback without changes.
        changes: memories that it changes.
        later: later operations on the same memories; undone too with `cascade`.
        erased: memories whose former contents were erased; `skip_erased` leaves them unchanged.
        twins: active memories with the text of a restored one, or in the place of a restored consolidation.
        protected: protected memories that only an administrator may roll back.
        relations: number of relations that are removed or restored.
    """

    op_id: UUID | None
    changes: tuple[StateChange, ...] = ()
    later: tuple[LaterOperation, ...] = ()
    erased: tuple[StateChange, ...] = ()
    twins: tuple[StateChange, ...] = ()
    protected: tuple[StateChange, ...] = ()
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
    """A memory of a scope key at a past time, without its text.

    Attributes:
        id: id of the memory.
        kind: kind of the memory.
        category: its category.
        state: its state then; `purged` if its contents were erased since.
        tokens: its size in tokens.
        importance: 1 trivial to 5 vital.
        protected: whether only an administrator could change it.
    """

    id: UUID
    kind: Kind
    category: str
    state: State
    tokens: int
    importance: int
    protected: bool


@dataclass(frozen=True, kw_only=True)
class Concerned:
    """A memory or a message that an erasure would remove or keep.

    Attributes:
        id: id of the memory or message.
        kind: kind of the memory, or `message`.
        scope_key: scope key that it belongs to, such as `user:ana`.
        content: its text; None if the person may not read it.
        stays: reason to keep it; None if it is removed.
    """

    id: UUID
    kind: ResultKind
    scope_key: str
    content: str | None
    stays: Literal["said by another", "shared", "rests on the same messages"] | None = None


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """The result of an erasure; of a dry run, the items that it would remove and keep.

    Attributes:
        erased: memories that this call erased, and the messages that it named.
        messages: number of erased messages; of a dry run, of the messages among `going`.
        left: number of memories and messages that remain, because others write meanwhile. The next call continues.
        goes_on_from: start of the earlier erasure that this call continued; None for a new one.
        going: items that a dry run would remove.
        staying: items that a dry run would keep.
    """

    erased: tuple[UUID, ...] = ()
    messages: int = 0
    left: int = 0
    goes_on_from: datetime | None = None
    going: tuple[Concerned, ...] = ()
    staying: tuple[Concerned, ...] = ()
