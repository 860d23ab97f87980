"""What happened to an agent's memories, in plain Python.

The model of the Time Machine's tests: a list of changes, from which every past state is read off. It knows nothing of
the database's statements.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
            item = waiting.pop()
            if item not in found:
                found.add(item)
                waiting += [end for start, end in ways if start == item]
        return found

    def rests(self, message_id: UUID) -> Iterator[Row]:
        """The memories that rest on a message."""
        now = self.memories()
        return (now[item] for item in self.whole(item for item, sent in self.sources.items() if message_id in sent))

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


def are_twins(item: Row, other: Row) -> bool:
    """Whether two memories cannot live side by side."""
    if item["id"] == other["id"] or (item["scope_key"], item["kind"]) != (other["scope_key"], other["kind"]):
        return False
    is_same = (item["content"], item["subject_user_id"]) == (other["content"], other["subject_user_id"])
    return is_same or item["kind"] == "consolidation"


def stands(past: Past, memory_id: UUID) -> bool:
    """Whether a memory, or one that it went into, is in use, or was forgotten."""
    now = past.memories()
    return any(now[item]["state"] == "active" or _is_forgotten(past, item) for item in past.whole([memory_id]))


def _is_forgotten(past: Past, memory_id: UUID) -> bool:
    closings = [change for change in past.changes if change.subject == memory_id and _moves(change, "soft_deleted")]
    is_closed = past.memories()[memory_id]["state"] == "soft_deleted"
    return is_closed and past.operations[closings[-1].op_id].reason not in ("merge", "dedup")


def _moves(change: Change, state: str) -> bool:
    return bool(change.before and change.after and change.before["state"] != state == change.after["state"])
