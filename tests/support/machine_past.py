"""What happened to an agent's memories, in plain Python, and what a rollback of it has to do.

The model of the Time Machine's tests: a list of changes, from which every past state is read off. It knows nothing of
the database's statements.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from mnemic.state.errors import ContentErasedError, MnemicError, RollbackConflictError, UnknownOperationError
from mnemic.state.governance import LaterOperation, Rollback, StateChange

#: A memory's columns that its history tells, or a relation's.
Row = Mapping[str, Any]
#: From, to, type.
Link = tuple[UUID, UUID, str]
#: A memory, a relation, or a refinement as it begins and ends.
Subject = UUID | Link | str
World = dict[Subject, Row]

KEPT = ("active", "absorbed")
#: What becomes of a memory that stands for itself again.
FREED: Row = {"state": "active", "absorbed_at": None, "consolidated_into": None}
#: What a memory becomes that was not there yet.
CLOSED: Row = {**FREED, "state": "soft_deleted", "superseded_by": None, "purge_at": None}


class Event(NamedTuple):
    """One row of the database's history."""

    op_id: UUID
    reason: str
    refinement_id: UUID | None
    undo_of: UUID | None
    event: str
    subject: Subject
    scope_key: str
    ts: datetime


@dataclass(frozen=True)
class Change:
    """One line of the past: its place, from 1, is the history's revision."""

    event: Event
    before: Row | None
    after: Row | None

    @property
    def subject(self) -> Subject:
        return self.event.subject


@dataclass
class Past:
    """All that happened, and what was said."""

    changes: list[Change] = field(default_factory=list)
    #: The messages each memory rests on.
    sources: set[tuple[UUID, UUID]] = field(default_factory=set)
    #: Whether a message is searched.
    searched: dict[UUID, bool] = field(default_factory=dict)

    def at(self, revision: int) -> World:
        """Everything as it was after a revision."""
        world: World = {}
        for change in self.changes[:revision]:
            world.pop(change.subject, None)
            if change.after is not None:
                world[change.subject] = change.after
        return world

    def now(self) -> World:
        return self.at(len(self.changes))

    def memories(self) -> dict[UUID, Row]:
        """The oldest first, so that a choice among them depends on nothing else."""
        now, born = self.now(), dict.fromkeys(change.subject for change in self.changes)
        return {subject: now[subject] for subject in born if isinstance(subject, UUID)}

    def operations(self) -> list[UUID]:
        return list(dict.fromkeys(change.event.op_id for change in self.changes))

    def touched(self, ops: Collection[UUID], keys: Sequence[str] | None) -> Iterator[tuple[int, Change]]:
        """What operations changed in scope keys (None: in all), with the seqs."""
        for revision, change in enumerate(self.changes, 1):
            if isinstance(change.subject, str):
                continue
            if change.event.op_id in ops and (keys is None or change.event.scope_key in keys):
                yield revision, change

    def write(self, events: Sequence[Event], after: Mapping[Subject, Row | None]) -> None:
        """Appends what an operation changed, in the order in which the database did.

        Where a place had to be freed before it could be taken, a memory was closed on the way.
        """
        left = [event.subject for event in events]
        for event in events:
            left.remove(event.subject)
            before = self.now().get(event.subject)
            closed = {**(before or {}), "state": "soft_deleted"}
            self.changes.append(Change(event, before, closed if event.subject in left else after.get(event.subject)))

    def whole(self, memory_ids: Iterable[UUID]) -> set[UUID]:
        """With these what they were merged into, or removed for the sake of."""
        return self._along(memory_ids, lambda link: (link[1], link[0]))

    def parts(self, memory_ids: Iterable[UUID]) -> set[UUID]:
        """With these what was merged into them, or removed for their sake."""
        return self._along(memory_ids, lambda link: (link[0], link[1]))

    def _along(self, memory_ids: Iterable[UUID], ends: Callable[[Link], tuple[UUID, UUID]]) -> set[UUID]:
        links = [each for each in self.now() if isinstance(each, tuple) and each[2] in ("merged_from", "same_as")]
        found, waiting = set[UUID](), [*memory_ids]
        while waiting:
            item = waiting.pop()
            if item not in found:
                found.add(item)
                waiting += [end for start, end in map(ends, links) if start == item]
        return found

    def roll_back(self, events: Sequence[Event], after: Mapping[Subject, Row | None]) -> None:
        """Appends what a rollback changed; what was said leaves search, or comes back, with what rests on it."""
        now = self.memories()
        moved = {
            memory_id: (now[memory_id]["state"], row["state"])
            for memory_id, row in after.items()
            if isinstance(memory_id, UUID) and row
        }
        self.write(events, after)
        gone = self.parts(item for item, (was, to) in moved.items() if was != to == "soft_deleted")
        back = self.parts(
            item for item, (was, to) in moved.items() if was != to and (to in KEPT or was == "soft_deleted")
        )
        now = self.memories()
        for memory_id, message_id in self.sources:
            resting = self.whole(item for item, sent in self.sources if sent == message_id)
            if memory_id in gone and message_id in self.searched:
                self.searched[message_id] &= any(now[item]["state"] in KEPT for item in resting)
        self.searched |= {sent: True for item, sent in self.sources if item in back and sent in self.searched}


def are_twins(item: Row, other: Row) -> bool:
    """Whether two memories cannot live side by side."""
    if item["id"] == other["id"] or (item["scope_key"], item["kind"]) != (other["scope_key"], other["kind"]):
        return False
    is_same = (item["content"], item["subject_user_id"]) == (other["content"], other["subject_user_id"])
    return is_same or item["kind"] == "consolidation"


@dataclass(frozen=True)
class Expected:
    """What a rollback tells, how it is refused, and what it leaves."""

    report: Rollback | None
    error: type[MnemicError] | None
    after: Mapping[Subject, Row | None]


def undo(past: Past, ops: set[UUID], keys: Sequence[str] | None, *, cascade: bool, skip_erased: bool) -> Expected:
    """Of operations, with all that later changed the same memories: every memory as before the first of them."""
    known = {change.event.op_id for _, change in past.touched(ops, keys)}
    if not known or known != ops:
        return Expected(None, UnknownOperationError, {})
    wanted = _with_later(past, known, keys)
    reasons = {change.event.op_id: change.event.reason for change in past.changes}
    later = tuple(LaterOperation(id=op_id, reason=reasons[op_id]) for op_id in wanted - known)
    if later and not cascade:
        return Expected(Rollback(op_id=None, later=later), RollbackConflictError, {})
    first: dict[Subject, int] = {}
    for revision, change in past.touched(wanted, keys):
        first.setdefault(change.subject, revision)
    targets = {subject: past.at(revision - 1).get(subject) for subject, revision in first.items()}
    return _expected(past, targets, later, administers=keys is None, skip_erased=skip_erased)


def _with_later(past: Past, known: set[UUID], keys: Sequence[str] | None) -> set[UUID]:
    """The operations, those that changed the same memories after them, those after these, and so on."""
    erased = {subject for subject, row in past.now().items() if row.get("state") == "purged"}
    ops = set(known)
    while True:
        first: dict[Subject, int] = {}
        for revision, change in past.touched(ops, keys):
            if isinstance(change.subject, UUID) and change.subject not in erased:
                first.setdefault(change.subject, revision)
        found = {
            change.event.op_id
            for revision, change in enumerate(past.changes, 1)
            if change.subject in first
            and revision > first[change.subject]
            # what an erasure gave back is in nobody's way
            and change.event.reason != "erasure"
        }
        if found <= ops:
            return ops
        ops |= found


def restore(past: Past, key: str, revision: int, *, administers: bool, skip_erased: bool) -> Expected:
    """Of a scope key: everything in it that changed since, as it was then."""
    then = past.at(revision)
    targets = {
        change.subject: then.get(change.subject)
        for at, change in past.touched(past.operations(), [key])
        if at > revision
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
    erased = [s for s, was in targets.items() if was and now.get(s, {}).get("state") == "purged"]
    guarded = [i for i, row in changed.items() if now[i]["protected"] or row["protected"]]

    def changes_of(memory_ids: Iterable[Any], after: Mapping[UUID, Row]) -> tuple[StateChange, ...]:
        return tuple(
            StateChange(
                id=each,
                kind=now[each]["kind"],
                scope_key=now[each]["scope_key"],
                before=now[each]["state"],
                after=after[each]["state"] if each in after else None,
            )
            for each in memory_ids
        )

    rollback = Rollback(
        op_id=None,
        changes=changes_of(changed, changed),
        later=later,
        erased=changes_of(erased, {}),
        twins=changes_of(_in_the_way(now, changed), changed),
        protected=() if administers else changes_of(guarded, changed),
        relations=sum(not isinstance(subject, UUID) for subject in after),
    )
    error: type[MnemicError] | None = ContentErasedError if rollback.erased and not skip_erased else None
    error = RollbackConflictError if rollback.protected or rollback.twins else error
    return Expected(rollback, error, {} if error else after)


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
    closings = [change.event.op_id for change in past.changes if change.after is was]
    into = {
        change.subject[0]
        for change in past.changes
        if change.event.op_id in closings and isinstance(change.subject, tuple) and change.after
        if change.subject[1:] in ((memory_id, "merged_from"), (memory_id, "same_as"))
    }
    erased = (each for each in into if past.memories()[each]["state"] == "purged")
    return was["state"] == "soft_deleted" and not all(_stands(past, each) for each in erased)


def _stands(past: Past, memory_id: UUID) -> bool:
    """Whether a memory, or one that it went into, is in use, or was forgotten."""
    now = past.memories()
    return any(now[item]["state"] == "active" or _is_forgotten(past, item) for item in past.whole([memory_id]))


def _is_forgotten(past: Past, memory_id: UUID) -> bool:
    closings = [
        change.event.reason
        for change in past.changes
        if change.subject == memory_id and change.before and change.after
        if change.before["state"] != "soft_deleted" == change.after["state"]
    ]
    return past.memories()[memory_id]["state"] == "soft_deleted" and closings[-1] not in ("merge", "dedup")


def _in_the_way(now: World, changed: Mapping[UUID, Row]) -> set[UUID]:
    """Whoever would live where a memory that the rollback changes lives: others, or two of its own."""
    finals = {**{subject: row for subject, row in now.items() if isinstance(subject, UUID)}, **changed}
    living = [row for row in finals.values() if row["state"] == "active"]
    return {other["id"] for row in changed.values() for other in living if row in living and are_twins(row, other)}
