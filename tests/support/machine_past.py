"""What happened to an agent's memories, in plain Python, and what an erasure of them has to take.

The model of the Time Machine's tests: a list of changes, from which every past state is read off. It knows nothing of
the database's statements.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

#: A memory's columns that its history tells, or a relation's.
Row = Mapping[str, Any]
#: From, to, type.
Link = tuple[UUID, UUID, str]
#: A memory, a relation, or a refinement as it begins and ends.
Subject = UUID | Link | str
World = dict[Subject, Row]

KEPT = ("active", "absorbed")
#: What becomes of a reflection whose consolidation was erased.
FREED: Row = {"state": "active", "absorbed_at": None, "consolidated_into": None}
#: What a memory becomes that was not there yet.
CLOSED: Row = {**FREED, "state": "soft_deleted", "superseded_by": None, "purge_at": None}
#: What an erasure leaves of a memory.
BARE: Row = {
    **CLOSED,
    "state": "purged",
    "content": "",
    "subject": "",
    "tags": None,
    "protected": False,
    "pinned": False,
}


@dataclass(frozen=True)
class Change:
    """One line of the past: its place, from 1, is the history's seq."""

    op_id: UUID
    subject: Subject
    scope_key: str
    before: Row | None
    after: Row | None
    ts: datetime


@dataclass(frozen=True)
class Done:
    """An operation."""

    op_id: UUID
    reason: str
    actor_kind: str
    session_id: str | None
    #: The refinement it is part of.
    refinement: UUID | None = None


@dataclass
class Past:
    """All that happened, and what was said."""

    changes: list[Change] = field(default_factory=list)
    operations: dict[UUID, Done] = field(default_factory=dict)
    #: The messages each memory rests on.
    sources: dict[UUID, list[UUID]] = field(default_factory=dict)
    #: Whether a message is searched.
    searched: dict[UUID, bool] = field(default_factory=dict)
    #: The memories whose words have a vector.
    vectors: set[UUID] = field(default_factory=set)
    #: Those whose new words the next operation brings a vector for.
    indexed_anew: set[UUID] = field(default_factory=set)

    def at(self, seq: int) -> World:
        """Everything as it was after a seq."""
        world: World = {}
        for change in self.changes[:seq]:
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

    def links(self) -> dict[Link, Row]:
        return {subject: row for subject, row in self.now().items() if isinstance(subject, tuple)}

    def version(self, memory_id: UUID) -> int:
        return sum(change.subject == memory_id for change in self.changes)

    def touched(self, ops: Iterable[UUID], keys: Sequence[str] | None) -> Iterator[tuple[int, Change]]:
        """What operations changed in scope keys (None: in all), with the seqs."""
        wanted = set(ops)
        for seq, change in enumerate(self.changes, 1):
            if isinstance(change.subject, str):
                continue
            if change.op_id in wanted and (keys is None or change.scope_key in keys):
                yield seq, change

    def write(self, done: Done, after: Mapping[Subject, Row | None], told: Sequence[tuple[Subject, datetime]]) -> None:
        """Appends what an operation changed, in the order in which the database did.

        Where a place had to be freed before it could be taken, a memory was closed on the way.
        """
        self.operations[done.op_id] = done
        left = [subject for subject, _ in told]
        for subject, ts in told:
            left.remove(subject)
            before = self.now().get(subject)
            row = {**(before or {}), "state": "soft_deleted"} if subject in left else after[subject]
            named = row or before or {}
            self.changes.append(Change(done.op_id, subject, named["scope_key"], before, row, ts))
            if isinstance(subject, UUID) and before and row and before["content"] != row["content"]:
                self.vectors = self.vectors - {subject} | (self.indexed_anew & {subject})
        self.indexed_anew.clear()

    def whole(self, memory_ids: Iterable[UUID]) -> set[UUID]:
        """With these what they were merged into, or removed for the sake of."""
        return self._along(memory_ids, lambda link: (link[1], link[0]))

    def parts(self, memory_ids: Iterable[UUID]) -> set[UUID]:
        """With these what was merged into them, or removed for their sake."""
        return self._along(memory_ids, lambda link: (link[0], link[1]))

    def _along(self, memory_ids: Iterable[UUID], ends: Callable[[Link], tuple[UUID, UUID]]) -> set[UUID]:
        ways = [ends(link) for link in self.links() if link[2] in ("merged_from", "same_as")]
        found, waiting = set[UUID](), [*memory_ids]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += [end for start, end in ways if start == one]
        return found

    def rests(self, message_id: UUID) -> Iterator[Row]:
        """The memories that rest on a message."""
        now = self.memories()
        return (now[one] for one in self.whole(one for one, said in self.sources.items() if message_id in said))

    def hide(self, memory_ids: Iterable[UUID]) -> None:
        """What was said goes out of search where no kept memory rests on it."""
        for message_id in self._said(self.parts(memory_ids)):
            if message_id in self.searched and not any(row["state"] in KEPT for row in self.rests(message_id)):
                self.searched[message_id] = False

    def show(self, memory_ids: Iterable[UUID]) -> None:
        """What memories rest on that came back is searched again."""
        for message_id in self._said(self.parts(memory_ids)):
            if message_id in self.searched:
                self.searched[message_id] = True

    def erase(self, memory_ids: Iterable[UUID]) -> None:
        """Takes what these were formed from, whoever else rests on it; that they rested on it stays known."""
        for message_id in self._said(memory_ids):
            self.searched.pop(message_id, None)

    def _said(self, memory_ids: Iterable[UUID]) -> list[UUID]:
        return [message_id for memory_id in memory_ids for message_id in self.sources.get(memory_id, ())]


def are_twins(one: Row, other: Row) -> bool:
    """Whether two memories cannot live side by side."""
    if one["id"] == other["id"] or (one["scope_key"], one["kind"]) != (other["scope_key"], other["kind"]):
        return False
    said = (one["content"], one["subject_user_id"]) == (other["content"], other["subject_user_id"])
    return said or one["kind"] == "consolidation"


def lineage(past: Past, memory_ids: Iterable[UUID]) -> set[UUID]:
    """With these where their words live on: what they came from and what any of that went into, if it shares a word."""
    found = set()
    for origin in memory_ids:
        said = _ever(past, origin)
        for kin in _closure(past, _closure(past, [origin], _came_from), _repeating):
            words = _ever(past, kin)
            if kin == origin or said & words or min(len(said), len(words)) < 2:
                found.add(kin)
    return found


def drawn_alike(past: Past, memory_ids: Collection[UUID]) -> set[UUID]:
    """What rests on the same messages and holds all words of one of these."""
    rows = past.memories()
    said = {message for one in memory_ids for message in past.sources[one]}
    told = [words for one in memory_ids if len(words := _words(rows[one])) > 1]
    return {
        one
        for one, row in rows.items()
        if said.intersection(past.sources[one]) and any(_words(row) | {"ana"} >= words for words in told)
    }


def _closure(past: Past, origins: Iterable[UUID], step: Callable[[Past, UUID], Iterator[UUID]]) -> set[UUID]:
    found: set[UUID] = set()
    waiting = [*origins]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += step(past, one)
            waiting += [end for link in past.links() if link[2] == "same_as" and one in link[:2] for end in link[:2]]
    return found


def _came_from(past: Past, memory_id: UUID) -> Iterator[UUID]:
    yield from (one for one, row in past.memories().items() if row["superseded_by"] == memory_id)
    yield from (link[1] for link in past.links() if link[0] == memory_id and link[2] == "merged_from")
    born = {change.op_id for change in past.changes if change.subject == memory_id and change.before is None}
    for change in past.changes:
        if change.op_id not in born or not isinstance(change.subject, UUID):
            continue
        is_merged = past.operations[change.op_id].reason == "merge" and _moves(change, "soft_deleted")
        is_replaced = _moves(change, "superseded") and not _is_gone(past, change)
        if is_merged or (is_replaced and change.after and change.after["superseded_by"] == memory_id):
            yield change.subject


def _ever(past: Past, memory_id: UUID) -> set[str]:
    """All words that it ever had, but for the name of whom it is about."""
    if past.memories()[memory_id]["state"] == "purged":
        return set()
    rows = (row for change in past.changes if change.subject == memory_id for row in (change.before, change.after))
    return set().union(*(_words(row) for row in rows)) - {"ana"}


def taken_in(past: Past, erased: Collection[object]) -> set[UUID]:
    """What these stood for: reflections of consolidations, and what was merged into one that nobody had forgotten."""
    return {
        memory_id
        for memory_id, row in past.memories().items()
        if memory_id not in erased
        and (row["consolidated_into"] in erased or (row["state"] == "soft_deleted" and _is_merged(past, row, erased)))
    }


def _is_merged(past: Past, row: Row, erased: Collection[object]) -> bool:
    """Whether it was merged into one of these, or removed for its sake, and no more is known of what that became."""
    into = [link[0] for link in past.links() if link[1] == row["id"] and link[2] in ("merged_from", "same_as")]
    return any(_is_under(past, one, erased) and not stands(past, one, erased) for one in into)


def _is_under(past: Past, memory_id: UUID, erased: Collection[object]) -> bool:
    """Whether it is one of these, or was erased before and had gone into one of them."""
    if memory_id in erased:
        return True
    if past.memories()[memory_id]["state"] != "purged":
        return False
    links = [link for link in past.links() if link[1] == memory_id and link[2] in ("merged_from", "same_as")]
    return any(_is_under(past, link[0], erased) for link in links)


def stands(past: Past, memory_id: UUID, erased: Collection[object] = ()) -> bool:
    """Whether a memory, or one that it went into, is in use, or was forgotten."""
    now = past.memories()
    return any(
        (now[one]["state"] == "active" and one not in erased) or _is_forgotten(past, one)
        for one in past.whole([memory_id])
    )


def _is_forgotten(past: Past, memory_id: UUID) -> bool:
    closings = [change for change in past.changes if change.subject == memory_id and _moves(change, "soft_deleted")]
    is_closed = past.memories()[memory_id]["state"] == "soft_deleted"
    return is_closed and past.operations[closings[-1].op_id].reason not in ("merge", "dedup")


def _repeating(past: Past, memory_id: UUID) -> Iterator[UUID]:
    """What replaced it, took it in or was merged from it, and the journals of refinements that may have seen it."""
    erasures = (at for at, change in enumerate(past.changes) if change.subject == memory_id and _is_erasure(change))
    erased_at = max(erasures, default=-1)
    for at, change in enumerate(past.changes):
        if change.subject != memory_id or change.after is None:
            continue
        beside = [other for other in past.changes if other.op_id == change.op_id and isinstance(other.subject, UUID)]
        if past.operations[change.op_id].reason == "merge" and change.after["state"] == "soft_deleted":
            yield from (_id(other) for other in beside if other.before is None)
        if change.before is None:
            yield from _journals(past, change, at)
        yield from _taken_over(past, change)
        if at >= erased_at:
            yield from (change.after[name] for name in ("superseded_by", "consolidated_into") if change.after[name])
        elif _moves(change, "absorbed"):  # its contents are gone, and the operation alone tells of it
            yield from (_id(other) for other in beside if _is_like(other, change, "consolidation"))
        elif _moves(change, "superseded"):
            yield from (_id(other) for other in beside if _is_like(other, change, "fact") and other.before is None)


def _taken_over(past: Past, change: Change) -> Iterator[UUID]:
    """What the same refinement wrote with words that it took away here, and that were not in what it replaced."""
    done = past.operations[change.op_id]
    if done.refinement is None or done.reason not in ("delete", "merge", "update") or _is_gone(past, change):
        return
    lost = _words(change.before) - (_words(change.after) if done.reason == "update" else set())
    for other in past.changes:
        beside = past.operations[other.op_id]
        is_memory = isinstance(other.subject, UUID) and other.subject != change.subject
        if not is_memory or beside.refinement != done.refinement or _is_gone(past, other):
            continue
        if other.before is None or beside.reason == "update":
            replaced = (one for one in past.changes if one.op_id == other.op_id and not _is_gone(past, one))
            if lost & (_words(other.after) - set().union(*(_words(one.before) for one in replaced))):
                yield _id(other)


def _is_gone(past: Past, change: Change) -> bool:
    """Whether its contents were erased since."""
    return isinstance(change.subject, UUID) and past.memories()[change.subject]["state"] == "purged"


def _words(row: Row | None) -> set[str]:
    """Without those that the text search drops; a relation has none."""
    said = row.get("content", "") if row else ""
    return set(said.lower().rstrip(".").split()) - {"and", "is", "in", "to", "a", "of"}


def _journals(past: Past, born: Change, at: int) -> Iterator[UUID]:
    for other in past.changes[at:]:
        is_new = other.before is None and other.after and other.after.get("kind") == "journal"
        if is_new and other.scope_key == born.scope_key:
            yield _id(other)


def _moves(change: Change, state: str) -> bool:
    return bool(change.before and change.after and change.before["state"] != state == change.after["state"])


def _is_erasure(change: Change) -> bool:
    return _moves(change, "purged")


def _is_like(other: Change, change: Change, kind: str) -> bool:
    row = other.after or other.before
    return bool(row and row["kind"] == kind and other.scope_key == change.scope_key)


def _id(change: Change) -> UUID:
    assert isinstance(change.subject, UUID)
    return change.subject
