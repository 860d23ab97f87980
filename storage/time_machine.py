"""Rollback and past states. The database's functions decide and act; their answers become records and errors here."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from psycopg.types.json import Jsonb

from mnemic.state.errors import (
    ContentErasedError,
    InvalidInputError,
    RollbackConflictError,
    UnknownOperationError,
)
from mnemic.state.records import Kind, Memory, State
from mnemic.state.rollback import LaterOperation, Operation, PastMemory, Rollback, StateChange
from mnemic.storage.statements import load_statements
from mnemic.storage.transaction import Scoped

Item = TypeVar("Item")
_SQL = load_statements("time_machine")
#: What is told of a memory.
_TOLD = ("memory_id", "kind", "scope_key", "before", "after")
#: Operations that the history of their undoing names by their ids.
MOST_NAMED = 20


async def operations(
    scoped: Scoped, keys: Sequence[str] | None, *, session_id: str | None, since: datetime | None, most: int
) -> list[Operation]:
    """What was done to memories of these scope keys, newest first; None: of all that the transaction sees."""
    values = {"keys": _list(keys), "session_id": session_id, "since": since, "most": most}
    return [_operation(row) for row in await scoped.rows(dict, _SQL["operations"], values)]


async def of_session(scoped: Scoped, keys: Sequence[str] | None, session_id: str, since: datetime) -> list[UUID]:
    """The operations that agents did in a session since a moment."""
    values = {"keys": _list(keys), "session_id": session_id, "since": since}
    return [op_id for (op_id,) in await scoped.tuples(_SQL["of_session"], values)]


class Planned(NamedTuple):
    """One row of a plan."""

    part: str
    memory_id: UUID
    kind: Kind
    scope_key: str
    before: State
    after: State | None
    version: int
    #: The row of history after which the memory is to be as it was, None: it was not there yet; or that of a relation.
    seq: int
    is_orphan: bool
    turn: int
    op_id: UUID
    reason: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one operation of a rollback changes: rows of its plan, and rows of history about relations."""

    changes: Sequence[Planned]
    links: Sequence[int]

    @property
    def size(self) -> int:
        """In memories and relations."""
        return len(self.changes) + len(self.links)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a rollback would do as things stood when it was read; nothing holds them so."""

    rows: Sequence[Planned]
    #: What was asked for; the same again is the same call.
    request: Mapping[str, Any]
    #: A person's; None: an administrator's.
    keys: list[str] | None

    @cached_property
    def resumed(self) -> UUID | None:
        """The rollback that the same call began and that was broken off."""
        return next((row.op_id for row in self.rows if row.part == "resumed"), None)

    @cached_property
    def all_of_it(self) -> Step:
        """What it changes."""
        links = [row.seq for row in self.rows if row.part == "relation"]
        return Step(changes=[row for row in self.rows if row.part == "change"], links=links)

    @cached_property
    def rollback(self) -> Rollback:
        """What it tells; of very many memories that takes a while."""

        def told(part: str) -> tuple[StateChange, ...]:
            found = sorted((row for row in self.rows if row.part == part), key=attrgetter("memory_id"))
            return tuple(StateChange(**{name: getattr(row, name) for name in _TOLD}) for row in found)

        later = (LaterOperation(op_id=row.op_id, reason=row.reason) for row in self.rows if row.part == "conflict")
        return Rollback(
            op_id=None,
            changes=told("change"),
            later=tuple(later),
            erased=told("erased"),
            twins=told("twin"),
            protected=told("protected"),
            relations=len(self.all_of_it.links),
        )

    def steps(self, most: int) -> list[Step]:
        """Parts of about so many changes: relations first, for what was said follows them; then whatever is closed."""
        changes, links = self.all_of_it.changes, self.all_of_it.links
        if self.all_of_it.size <= most:
            return [self.all_of_it]
        closed, opened = ([row for row in changes if row.turn in turns] for turns in ((0, 1), (3,)))
        # what takes the place of another one that moves goes with it
        tied = [row for row in changes if row.turn == 2]
        return [
            *(Step(changes=(), links=part) for part in _parts(links, most)),
            *(Step(changes=part, links=()) for part in (*_parts(closed, most), tied, *_parts(opened, most)) if part),
        ]


async def plan_undo(scoped: Scoped, keys: Sequence[str] | None, ops: Sequence[UUID], *, cascade: bool) -> Plan:
    """What undoing operations as one means; reads only.

    Args:
        keys: of a person, whose memories alone are rolled back; None: as administrator, all.
        ops: the operations; of a rollback in steps, the whole.
        cascade: undoes later operations on the same memories too.

    Raises:
        UnknownOperationError: there are none, or one that changed no memory of these scope keys.
    """
    own = _list(keys)
    request = {"undone": _named(ops), "cascade": cascade} | ({} if own is None else {"keys": own})
    values = {"ops": list(ops), "cascade": cascade, "keys": own, "request": Jsonb(request)}
    rows = [*map(Planned._make, await scoped.tuples(_SQL["plan_undo"], values))]
    if not ops or {row.op_id for row in rows if row.part == "operation"} != set(ops):
        raise UnknownOperationError
    return Plan(rows=rows, request=request, keys=own)


async def plan_restore(scoped: Scoped, key: str, seq: int, *, administers: bool) -> Plan:
    """What giving a scope key back the memories that it had after a seq means; reads only.

    Raises:
        InvalidInputError: the seq lies within an operation, which is restored whole or not at all.
    """
    ((is_divided,),) = await scoped.tuples(_SQL["divided"], {"key": key, "seq": seq})
    if is_divided:
        raise InvalidInputError(f"{seq} lies within an operation: name its last_seq, or what is before its first_seq")
    request = {"seq": seq, "key": key}
    own = None if administers else [key]
    values = {"keys": own, "key": key, "seq": seq, "request": Jsonb(request)}
    rows = await scoped.tuples(_SQL["plan_restore"], values)
    return Plan(rows=[*map(Planned._make, rows)], request=request, keys=own)


async def take(scoped: Scoped, plan: Plan, step: Step, *, op_id: UUID, whole: UUID | None, left: int) -> bool:
    """Does one step as an operation; False, and nothing is written, where anything is not as the plan saw it.

    Args:
        whole: the rollback that the step is part of; None: it is all of it.
        left: changes that remain after it.
    """
    values = {
        "ids": [row.memory_id for row in step.changes],
        "versions": [row.version for row in step.changes],
        "seqs": [row.seq for row in step.changes],
        "orphans": [row.is_orphan for row in step.changes],
        "links": list(step.links),
        "keys": plan.keys,
        "request": Jsonb(plan.request),
        "whole": whole,
        "left": left,
        "op_id": op_id,
        "actor": scoped.identity.actor,
    }
    await scoped.wait_for_head()
    ((is_done,),) = await scoped.tuples(_SQL["roll_back"], values)
    return bool(is_done)


def check(rollback: Rollback, *, cascade: bool, skip_erased: bool) -> None:
    """Refuses a rollback that something stands against.

    Raises:
        RollbackConflictError, ContentErasedError: by what.
    """
    obstacle = rollback.refused_by(cascade=cascade, skip_erased=skip_erased)
    if obstacle == "protected":
        raise RollbackConflictError("protected memories are rolled back by an administrator only", rollback)
    if obstacle == "later":
        raise RollbackConflictError(
            f"later operations ({len(rollback.later)}) changed the same memories: look at the dry run, and undo them "
            "too with cascade",
            rollback,
        )
    if obstacle == "twins":
        raise RollbackConflictError(
            "memories that live today say the same, or hold the place: forget those first, or undo what made them",
            rollback,
        )
    if obstacle == "erased":
        raise ContentErasedError(
            f"what {len(rollback.erased)} of these memories said was erased: skip_erased rolls back the others",
            rollback,
        )


async def seq_of(scoped: Scoped, key: str, moment: int | datetime) -> int:
    """The seq that a moment means: itself, or where the scope key's history stood at that time.

    Raises:
        InvalidInputError: the history has not come so far.
    """
    if isinstance(moment, datetime):
        ((seq,),) = await scoped.tuples(_SQL["seq_at"], {"key": key, "ts": moment})
        return int(seq)
    ((newest,),) = await scoped.tuples(_SQL["newest"], {})
    if moment > newest:
        raise InvalidInputError(f"the history has come as far as {newest}: name an earlier moment")
    return moment


async def as_of(scoped: Scoped, key: str, seq: int, *, with_closed: bool) -> list[Memory]:
    """The memories of a visible scope key after a seq; of those erased since no more than the skeleton is left."""
    return await scoped.rows(Memory, _SQL["as_of"], {"key": key, "seq": seq, "with_closed": with_closed})


async def as_of_blind(scoped: Scoped, key: str, seq: int) -> list[PastMemory]:
    """The same for an administrator, without what they say."""
    return await scoped.rows(PastMemory, _SQL["as_of_blind"], {"key": key, "seq": seq})


def _operation(row: dict[str, Any]) -> Operation:
    scope_keys = tuple(row.pop("scope_keys") or ())
    brought_by = tuple(row.pop("brought_by") or ())
    return Operation(
        **{**row, "events": dict(Counter(row["events"])), "scope_keys": scope_keys, "brought_by": brought_by}
    )


def _named(ops: Sequence[UUID]) -> list[str] | str:
    """Operations as the history names what was undone, in each of its rows: many by a digest."""
    names = sorted(str(op_id) for op_id in ops)
    return names if len(names) <= MOST_NAMED else hashlib.sha256(",".join(names).encode()).hexdigest()


def _parts(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    return [items[start : start + most] for start in range(0, len(items), most)]


def _list(keys: Sequence[str] | None) -> list[str] | None:
    return None if keys is None else list(keys)
