"""What a rollback has to do, and what stands against it: told from the model's past alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from mnemic.state.errors import ContentErasedError, MnemicError, RollbackConflictError, UnknownOperationError
from mnemic.state.rollback import LaterOperation, Rollback, StateChange
from tests.support.machine_erased import stands
from tests.support.machine_past import Past, Row, Subject, World, are_twins

#: What a memory becomes that was not there yet.
CLOSED = {
    "state": "soft_deleted",
    "superseded_by": None,
    "absorbed_at": None,
    "consolidated_into": None,
    "purge_at": None,
}


#: What becomes of a reflection whose consolidation was erased.
FREED = {"state": "active", "absorbed_at": None, "consolidated_into": None}


@dataclass(frozen=True)
class Expected:
    """What a rollback tells, how it is refused, and what it leaves."""

    told: Rollback | None
    error: type[MnemicError] | None
    after: Mapping[Subject, Row | None]


def undo(past: Past, ops: Iterable[UUID], keys: Sequence[str] | None, *, cascade: bool, skip_erased: bool) -> Expected:
    """Of operations, with all that later changed the same memories: every memory as before the first of them."""
    ops = set(ops)
    known = {change.op_id for _, change in past.touched(ops, keys)}
    if not known or known != ops:
        return Expected(None, UnknownOperationError, {})
    wanted = _with_later(past, known, keys)
    later = tuple(LaterOperation(op_id=op_id, reason=past.operations[op_id].reason) for op_id in sorted(wanted - known))
    if later and not cascade:
        return Expected(Rollback(op_id=None, later=later), RollbackConflictError, {})
    first: dict[Subject, int] = {}
    for seq, change in past.touched(wanted, keys):
        first.setdefault(change.subject, seq)
    targets = {subject: past.at(seq - 1).get(subject) for subject, seq in first.items()}
    return _expected(past, targets, later, administers=keys is None, skip_erased=skip_erased)


def _with_later(past: Past, known: set[UUID], keys: Sequence[str] | None) -> set[UUID]:
    """The operations, those that changed the same memories after them, those after these, and so on."""
    erased = {subject for subject, row in past.now().items() if row.get("state") == "purged"}
    ops = set(known)
    while True:
        first: dict[Subject, int] = {}
        for seq, change in past.touched(ops, keys):
            if isinstance(change.subject, UUID) and change.subject not in erased:
                first.setdefault(change.subject, seq)
        found = {
            change.op_id
            for seq, change in enumerate(past.changes, 1)
            if change.subject in first
            and seq > first[change.subject]
            # what an erasure gave back is in nobody's way
            and past.operations[change.op_id].reason != "erasure"
        }
        if found <= ops:
            return ops
        ops |= found


def restore(past: Past, key: str, seq: int, *, administers: bool, skip_erased: bool) -> Expected:
    """Of a scope key: everything in it that changed since, as it was then."""
    then = past.at(seq)
    targets = {
        change.subject: then.get(change.subject) for at, change in past.touched(past.operations, [key]) if at > seq
    }
    return _expected(past, targets, (), administers=administers, skip_erased=skip_erased)


def _expected(
    past: Past,
    targets: Mapping[Subject, Row | None],
    later: tuple[LaterOperation, ...],
    *,
    administers: bool,
    skip_erased: bool,
) -> Expected:
    now = past.now()
    after = {
        subject: row for subject, was in targets.items() if (row := _after(past, subject, was)) != now.get(subject)
    }
    changed = {memory_id: row for memory_id, row in after.items() if isinstance(memory_id, UUID) and row}
    erased = {s: None for s, was in targets.items() if was and now.get(s, {}).get("state") == "purged"}
    guarded = {i: row for i, row in changed.items() if now[i]["protected"] or row["protected"]}
    told = Rollback(
        op_id=None,
        changes=_told(now, changed),
        later=later,
        erased=_told(now, erased),
        twins=_told(now, {i: changed.get(i) for i in _in_the_way(now, changed)}),
        protected=() if administers else _told(now, guarded),
        relations=sum(not isinstance(subject, UUID) for subject in after),
    )
    error = _error(told, skip_erased)
    return Expected(told, error, {} if error else after)


def _after(past: Past, subject: Subject, was: Row | None) -> Row | None:
    """A relation comes or goes; a memory is never deleted, and stays as it is once it was erased."""
    if not isinstance(subject, UUID):
        return was
    now = past.memories()
    row = now[subject]
    if row["state"] == "purged":
        return row
    if was is None:
        return {**row, **CLOSED}
    # what took it in was erased: it stands for itself, as after that erasure
    is_orphan = was.get("consolidated_into") and now[was["consolidated_into"]]["state"] == "purged"
    return {**was, **FREED} if is_orphan or _is_orphaned(past, subject, was) else was


def _is_orphaned(past: Past, memory_id: UUID, was: Row) -> bool:
    """Whether it was closed by what was erased since, or for its sake."""
    closings = [change.op_id for change in past.changes if change.after is was]
    into = {
        change.subject[0]
        for change in past.changes
        if change.op_id in closings and isinstance(change.subject, tuple) and change.after
        if change.subject[1:] in ((memory_id, "merged_from"), (memory_id, "same_as"))
    }
    erased = (one for one in into if past.memories()[one]["state"] == "purged")
    return was["state"] == "soft_deleted" and not all(stands(past, one) for one in erased)


def _in_the_way(now: World, changed: Mapping[UUID, Row]) -> set[UUID]:
    """Whoever would live where a memory that the rollback changes lives: others, or two of its own."""
    finals = {**{subject: row for subject, row in now.items() if isinstance(subject, UUID)}, **changed}
    living = [row for row in finals.values() if row["state"] == "active"]
    return {other["id"] for row in changed.values() for other in living if row in living and are_twins(row, other)}


def _told(now: World, after: Mapping[UUID, Row | None] | Mapping[Subject, None]) -> tuple[StateChange, ...]:
    return tuple(
        StateChange(
            memory_id=memory_id,
            kind=now[memory_id]["kind"],
            scope_key=now[memory_id]["scope_key"],
            before=now[memory_id]["state"],
            after=row["state"] if row else None,
        )
        for memory_id, row in sorted(after.items(), key=lambda item: str(item[0]))
        if isinstance(memory_id, UUID)
    )


def _error(told: Rollback, skip_erased: bool) -> type[MnemicError] | None:
    if told.protected or told.twins:
        return RollbackConflictError
    return ContentErasedError if told.erased and not skip_erased else None
