"""Rollbacks and looks at the past, done to the real agent as the model says: told first, then done, or refused."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from uuid import UUID

from mnemic.operations.governance import rollback
from mnemic.state.errors import (
    ContentErasedError,
    InvalidInputError,
    MnemicError,
    RollbackConflictError,
    RollbackRefusedError,
    UnknownOperationError,
)
from mnemic.state.governance import LaterOperation, Rollback, RollbackOptions, StateChange
from mnemic.storage import history
from tests.support.machine_agent import Pair, same
from tests.support.machine_past import CLOSED, FREED, KEPT, Past, Row, Subject, World, are_twins, stands


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
    erased = (each for each in into if past.memories()[each]["state"] == "purged")
    return was["state"] == "soft_deleted" and not all(stands(past, each) for each in erased)


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


OWN = ["user:ana", "session:s1"]
#: What a past memory is known by, beside its state.
_PLAIN = ("kind", "scope_key", "category", "content", "subject", "subject_user_id", "importance", "pinned", "protected")


class RollbackSteps:
    """What the state machine does with the Time Machine."""

    def __init__(self, both: Pair, met: Counter[str]) -> None:
        self._both = both
        self._real = both.real
        self._met = met

    @property
    def _past_now(self) -> Mapping[UUID, Row]:
        return self._both.past.memories()

    def undo(
        self, ops: Sequence[UUID], *, person: bool, cascade: bool, skip_erased: bool, met_as: str = "undo"
    ) -> None:
        """Undoes operations as one; what that meets is counted under a name."""
        keys = OWN if person else None
        expected = undo(self._both.past, ops, keys, cascade=cascade, skip_erased=skip_erased)

        def real(apply: bool) -> Rollback:
            options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=not apply)
            return self._real.runner.run(rollback.undo(self._real.actor(not person), ops, options))

        undone = self._roll_back("undo", expected, real, met_as)
        if undone and len(ops) == 1:
            (undo_of,) = {row["undo_of"] for row in self._real.told(0) if row["op_id"] == undone}
            same("what was undone", undo_of, ops[0])

    def restore(self, key: str, seq: int, *, administers: bool, skip_erased: bool) -> None:
        seq = self._whole(key, seq)
        expected = restore(self._both.past, key, seq, administers=administers, skip_erased=skip_erased)

        def real(apply: bool) -> Rollback:
            options = RollbackOptions(skip_erased=skip_erased, dry_run=not apply)
            return self._real.runner.run(rollback.restore(self._real.actor(administers), key, seq, options))

        self._roll_back("restore", expected, real, "restore")

    def _whole(self, key: str, seq: int) -> int:
        """The seq, or that before the operation which it would divide; such a one is refused."""
        own = [(at, change.op_id) for at, change in enumerate(self._both.past.changes, 1) if change.scope_key == key]
        done = [op_id for at, op_id in own if at <= seq]
        seqs = [at for at, op_id in own if done and op_id == done[-1]]
        if not seqs or seqs[-1] <= seq:
            return seq
        dry = RollbackOptions(skip_erased=True, dry_run=True)
        _, error = _outcome(lambda: self._real.runner.run(rollback.restore(self._real.actor(True), key, seq, dry)))
        same("refusal of half an operation", error, InvalidInputError)
        return seqs[0] - 1

    def _roll_back(self, reason: str, expected: Expected, real: Callable[[bool], Rollback], met_as: str) -> UUID | None:
        told, _ = _outcome(lambda: real(False))
        same(f"dry run of {reason}", told, expected.told)
        self._both.done(reason, {})
        done, error = _outcome(lambda: real(True))
        same(f"refusal of {reason}", error, expected.error)
        same(f"what {reason} tells", done, expected.told)
        self._met.update(_met(met_as, expected))
        moved = {
            memory_id: (self._past_now[memory_id]["state"], row["state"])
            for memory_id, row in expected.after.items()
            if isinstance(memory_id, UUID) and row
        }
        return self._both.done(
            reason,
            expected.after,
            gone=[each for each, (was, to) in moved.items() if was != to == "soft_deleted"],
            back=[each for each, (was, to) in moved.items() if was != to and (to in KEPT or was == "soft_deleted")],
        )

    # -- looks at the past

    def look_back(self, key: str, seq: int, *, with_closed: bool) -> None:
        then = {
            subject: row
            for subject, row in self._both.past.at(seq).items()
            if isinstance(subject, UUID) and row["scope_key"] == key and row["state"] != "purged"
        }
        now = self._past_now
        erased = {memory_id for memory_id in then if now[memory_id]["state"] == "purged"}
        shown = {
            memory_id: now[memory_id] if memory_id in erased else row
            for memory_id, row in then.items()
            if with_closed or row["state"] == "active" or memory_id in erased
        }
        as_of = self._real.serve(lambda scoped: history.as_of(scoped, key, seq, with_closed=with_closed))
        found = {each.id: each for each in as_of}
        same(
            "past contents",
            {i: _plain(asdict(each)) for i, each in found.items()},
            {i: _plain(shown[i]) for i in shown},
        )
        as_of_blind = self._real.administer(lambda scoped: history.as_of_blind(scoped, key, seq))
        blind = {each.id: (each.state, each.tokens, each.protected) for each in as_of_blind}
        sizes = {i: ("purged", 0, False) if i in erased else _blind(row) for i, row in then.items()}
        same("past states", blind, sizes)
        if seq:
            self._moment(key, self._both.past.changes[seq - 1].ts)

    def _moment(self, key: str, ts: datetime) -> None:
        """A time means the last operation that was whole by then."""
        past = self._both.past
        open_still = {change.op_id for change in past.changes if change.scope_key == key and change.ts > ts}
        whole = [
            seq
            for seq, change in enumerate(past.changes, 1)
            if change.scope_key == key and change.ts <= ts and change.op_id not in open_still
        ]
        moment = self._real.administer(lambda scoped: history.seq_of(scoped, key, ts))
        same("moment", moment, max(whole, default=0))


def _met(reason: str, expected: Expected) -> list[str]:
    """What a rollback met, in words, so that a test can tell whether all of it was ever tried."""
    told = expected.told
    if told is None:
        return [f"{reason}: unknown"]
    parts = {"later": told.later, "erased": told.erased, "twins": told.twins, "protected": told.protected}
    outcome = "refused" if expected.error else "done"
    met = [f"{reason}: {outcome} with {name}" for name, part in parts.items() if part]
    links = [subject for subject in expected.after if not isinstance(subject, UUID)]
    back = [subject for subject in links if expected.after[subject]]
    named = {"links": links, "links that come back": back, "changes": told.changes}
    return [*met, *(f"{reason}: {outcome} with {name}" for name, part in named.items() if part), f"{reason}: {outcome}"]


def _plain(row: Mapping[str, object]) -> dict[str, object]:
    names = (*_PLAIN, "private", "provenance", "state", "valid_from", "valid_until", "superseded_by")
    return {name: row[name] for name in names}


def _blind(row: Row) -> tuple[str, int, bool]:
    return row["state"], -(-len(row["content"]) // 4), row["protected"]


def _outcome(act: Callable[[], Rollback]) -> tuple[Rollback | None, type[MnemicError] | None]:
    """What was told, in an order of its own and without the operation; and the refusal."""
    try:
        told, error = act(), None
    except RollbackRefusedError as refused:
        told, error = refused.rollback, type(refused)
    except MnemicError as refused:
        return None, type(refused)
    return (
        replace(
            told,
            op_id=None,
            later=tuple(sorted(told.later, key=lambda later: later.op_id)),
            changes=tuple(sorted(told.changes, key=lambda change: change.memory_id)),
            erased=tuple(sorted(told.erased, key=lambda change: change.memory_id)),
            twins=tuple(sorted(told.twins, key=lambda change: change.memory_id)),
            protected=tuple(sorted(told.protected, key=lambda change: change.memory_id)),
        ),
        error,
    )
