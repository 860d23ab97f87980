"""Rollback and past states. The database's functions decide and act; their answers become records and errors here."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from mnemic.state.errors import (
    ContentErasedError,
    InvalidInputError,
    RollbackConflictError,
    UnknownOperationError,
)
from mnemic.state.records import Memory
from mnemic.state.rollback import LaterOperation, Operation, PastMemory, Rollback, StateChange
from mnemic.storage.database import Scoped
from mnemic.storage.statements import load_statements

_SQL = load_statements("time_machine")


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


async def undo(
    scoped: Scoped, keys: Sequence[str] | None, ops: Sequence[UUID], *, cascade: bool, skip_erased: bool, apply: bool
) -> Rollback:
    """Undoes operations as one new operation, or tells what that would do.

    Args:
        keys: of a person, whose memories alone are rolled back; None: as administrator, all.
        ops: the operations.
        cascade: undoes later operations on the same memories too.
        skip_erased: leaves memories as they are whose contents were erased.
        apply: False tells only.

    Raises:
        UnknownOperationError: there are none, or one that changed no memory of these scope keys.
        RollbackConflictError: something stands against it; nothing was written.
        ContentErasedError: contents were erased; nothing was written.
    """
    op_id = uuid4() if apply else None
    values = {"ops": list(ops), "cascade": cascade, "skip_erased": skip_erased, "keys": _list(keys)}
    rows = await _call(scoped, "undo" if keys is not None else "undo_as_administrator", op_id, values)
    if not ops or {row["op_id"] for row in rows if row["part"] == "operation"} != set(ops):
        raise UnknownOperationError
    return _checked(_rollback(rows, op_id), cascade=cascade, skip_erased=skip_erased)


async def restore(scoped: Scoped, key: str, seq: int, *, administers: bool, skip_erased: bool, apply: bool) -> Rollback:
    """Gives a scope key back the memories that it had after a seq, or tells what that would do.

    Raises:
        InvalidInputError: the seq lies within an operation, which is restored whole or not at all.
        RollbackConflictError, ContentErasedError: as `undo`.
    """
    ((is_divided,),) = await scoped.tuples(_SQL["divided"], {"key": key, "seq": seq})
    if is_divided:
        raise InvalidInputError(f"{seq} lies within an operation: name its last_seq, or what is before its first_seq")
    op_id = uuid4() if apply else None
    values = {"key": key, "seq": seq, "skip_erased": skip_erased}
    rows = await _call(scoped, "restore_as_administrator" if administers else "restore", op_id, values)
    return _checked(_rollback(rows, op_id), cascade=True, skip_erased=skip_erased)


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


async def _call(scoped: Scoped, name: str, op_id: UUID | None, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    if op_id is not None:
        await scoped.wait_for_head()
    return await scoped.rows(dict, _SQL[name], {**values, "op_id": op_id, "actor": scoped.identity.actor})


def _operation(row: dict[str, Any]) -> Operation:
    scope_keys = tuple(row.pop("scope_keys") or ())
    brought_by = tuple(row.pop("brought_by") or ())
    return Operation(
        **{**row, "events": dict(Counter(row["events"])), "scope_keys": scope_keys, "brought_by": brought_by}
    )


def _rollback(rows: Sequence[Mapping[str, Any]], op_id: UUID | None) -> Rollback:
    def part(name: str) -> tuple[StateChange, ...]:
        return tuple(
            StateChange(
                memory_id=row["memory_id"],
                kind=row["kind"],
                scope_key=row["scope_key"],
                before=row["before_state"],
                after=row["after_state"],
            )
            for row in rows
            if row["part"] == name
        )

    later = (LaterOperation(op_id=row["op_id"], reason=row["reason"]) for row in rows if row["part"] == "conflict")
    return Rollback(
        op_id=op_id,
        changes=part("change"),
        later=tuple(later),
        erased=part("erased"),
        twins=part("twin"),
        protected=part("protected"),
        relations=sum(row["part"] == "relation" for row in rows),
    )


def _checked(rollback: Rollback, *, cascade: bool, skip_erased: bool) -> Rollback:
    """A dry run is never refused; what would write is refused as a whole."""
    obstacle = rollback.refused_by(cascade=cascade, skip_erased=skip_erased)
    if rollback.op_id is None or (obstacle is None and not rollback.changes_nothing):
        return rollback
    undone = replace(rollback, op_id=None)
    if obstacle == "protected":
        raise RollbackConflictError("protected memories are rolled back by an administrator only", undone)
    if obstacle == "later":
        raise RollbackConflictError(
            f"later operations ({len(undone.later)}) changed the same memories: look at the dry run, and undo them too "
            "with cascade",
            undone,
        )
    if obstacle == "twins":
        raise RollbackConflictError(
            "memories that live today say the same, or hold the place: forget those first, or undo what made them",
            undone,
        )
    if obstacle == "erased":
        raise ContentErasedError(
            f"what {len(undone.erased)} of these memories said was erased: skip_erased rolls back the others", undone
        )
    return undone


def _list(keys: Sequence[str] | None) -> list[str] | None:
    return None if keys is None else list(keys)
