"""What the Time Machine tells and does: ids, kinds and states, never what a memory says."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from mnemic.state.records import Kind, State

#: What may stand against a rollback.
Obstacle = Literal["protected", "later", "twins", "erased"]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One act on memories, as its history tells it."""

    op_id: UUID
    #: The seqs of its first and its last visible row.
    first_seq: int
    last_seq: int
    ts: datetime
    actor: str
    actor_kind: str
    #: Who brought words of somebody else that were formed in it.
    brought_by: tuple[str, ...]
    reason: str
    session_id: str | None
    undo_of: UUID | None
    #: How often each event happened.
    events: dict[str, int]
    scope_keys: tuple[str, ...]
    token_delta: int
    #: Changes that a rollback in steps has still to make; 0: it is whole.
    left: int


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """One memory that a rollback changes, or that stands in its way."""

    memory_id: UUID
    kind: Kind
    scope_key: str
    before: State
    #: None: as far as is known it was not there yet, or nothing is known of it.
    after: State | None


@dataclass(frozen=True, kw_only=True)
class LaterOperation:
    """An operation that changed a memory after the one to be undone."""

    op_id: UUID
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

    def refused_by(self, *, cascade: bool, skip_erased: bool) -> Obstacle | None:
        """What stands against it, the gravest first; None: nothing does."""
        if self.protected:
            return "protected"
        if self.later and not cascade:
            return "later"
        if self.twins:
            return "twins"
        return "erased" if self.erased and not skip_erased else None


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
