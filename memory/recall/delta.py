"""Pure rules of the delta header: the changes since a session's last recall that are announced, and their form."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from mnemic.memory.text.shape import clip_text
from mnemic.state.identity import attribution_for, scope_key
from mnemic.state.kinds import ChangeEvent
from mnemic.state.query import (
    MAX_SENTENCE_LENGTH,
    MAX_TEXT_LENGTH,
    SIGNS,
    Bullet,
    Change,
    Changes,
    Delta,
    Known,
    Sign,
)

#: Maximum number of bullets of a header.
MAX_BULLETS: Final = 3
_REMOVALS: Final = ("DELETE", "TTL", "PURGE", "ERASE")
_MERGES: Final = ("ABSORB", "MERGE")


def header(changes: Changes, reader: str | None = None) -> Delta | None:
    """Return the header for a user, or None if there is nothing to announce."""
    announcements = _announcements(changes, reader)
    if changes.since is None or not announcements:
        return None
    announced: list[Change] = []
    for change in changes.changes:
        if _successor(change.memory_id, changes.known) in announcements:
            announced.append(change)
    best: list[Bullet] = []
    shown: list[UUID] = []
    for memory_id, bullet in islice(announcements.items(), MAX_BULLETS):
        best.append(bullet)
        if bullet.text:
            shown.append(memory_id)
    return Delta(
        since=changes.since,
        bullets=tuple(best),
        total=len(announcements),
        changes=tuple(announced),
        shown=tuple(shown),
    )


def bullets(changes: Changes, reader: str | None = None) -> tuple[Bullet, ...]:
    """Return all changes to announce to a user.

    All changes of one memory are one bullet, and so are those of a memory and of the memories that it superseded or
    merged. The most important bullets come first; of equally important ones, the newest.
    """
    return tuple(_announcements(changes, reader).values())


def _announcements(changes: Changes, reader: str | None) -> dict[UUID, Bullet]:
    """Return the bullets in order, by the memory that the changes ended with."""
    by_successor: defaultdict[UUID, list[Change]] = defaultdict(list)
    for change in changes.changes:
        by_successor[_successor(change.memory_id, changes.known)].append(change)

    def rank(memory_id: UUID) -> tuple[int, int]:
        last = by_successor[memory_id][-1]
        return -_importance(memory_id, by_successor[memory_id], changes.known), -last.revision

    announcements: dict[UUID, Bullet] = {}
    for memory_id in sorted(by_successor, key=rank):
        memory = changes.known.get(memory_id)
        if memory and memory.state == "active":
            bullet: Bullet | None = _active_bullet(memory_id, by_successor[memory_id], memory, reader)
        else:
            bullet = _removal_bullet(memory_id, by_successor[memory_id], changes, reader)
        if bullet:
            announcements[memory_id] = bullet
    return announcements


def _successor(memory_id: UUID, known: Mapping[UUID, Known]) -> UUID:
    """Return the memory at the end of a chain of supersessions and merges."""
    visited = {memory_id}
    while memory_id in known:
        successor = known[memory_id].successor
        if not successor or successor in visited:
            break
        memory_id = successor
        visited.add(successor)
    return memory_id


def _importance(memory_id: UUID, changes: Iterable[Change], known: Mapping[UUID, Known]) -> int:
    """Return the highest importance of a memory and of those that changed into it."""
    ids = _with_changed(memory_id, changes) & known.keys()
    return max((known[each].importance for each in ids), default=0)


def _with_changed(memory_id: UUID, changes: Iterable[Change]) -> set[UUID]:
    return {memory_id, *(change.memory_id for change in changes)}


def _active_bullet(memory_id: UUID, changes: Sequence[Change], memory: Known, reader: str | None) -> Bullet:
    sign = _sign(memory_id, changes)
    text = " ".join(memory.beginning.split())
    attribution = attribution_for(reader, memory)
    if attribution and attribution.said and len(attribution.said) > MAX_SENTENCE_LENGTH:
        # without its sentence the text proves nothing
        text, attribution = "", attribution._replace(said=None)
    combined = 0
    if sign == SIGNS["MERGE"]:
        combined = len(_ids_of(changes, _MERGES) - {memory_id})
    return Bullet(
        sign=sign,
        category=memory.category,
        text=clip_text(text, MAX_TEXT_LENGTH),
        combined=combined,
        importance=memory.importance if text else None,
        attribution=attribution,
    )


def _removal_bullet(
    memory_id: UUID, changes: Sequence[Change], all_changes: Changes, reader: str | None
) -> Bullet | None:
    """Return the bullet of a removed memory, without its text, or None if the reader has not seen it."""
    sign, memory = _sign(memory_id, changes), all_changes.known.get(memory_id)
    if memory and sign not in (SIGNS["DELETE"], SIGNS["ERASE"]):
        return None  # by the agent itself, which knows of that, or by a change that the next header announces
    ids = _with_changed(memory_id, changes)
    if not any(_was_seen(each, all_changes, reader) for each in ids):
        return None
    removed = memory or all_changes.known.get(changes[-1].memory_id)
    return Bullet(sign=sign, category=changes[-1].category, text="", kind=removed and removed.kind)


def _was_seen(memory_id: UUID, changes: Changes, reader: str | None) -> bool:
    """Return whether the session has shown the memory; without a session, whether it is in the reader's own scope."""
    if changes.shown is not None:
        return memory_id in changes.shown
    memory = changes.known.get(memory_id)
    return memory is not None and reader is not None and memory.scope_key == scope_key("user", reader)


def _sign(memory_id: UUID, changes: Sequence[Change]) -> Sign:
    last = _last_event(memory_id, changes)
    if last in _REMOVALS:
        return SIGNS[last]
    if _ids_of(changes, _MERGES) - {memory_id}:
        return SIGNS["MERGE"]
    if _with_changed(memory_id, changes) == _ids_of(changes, ("ADD",)):
        return SIGNS["ADD"]
    if last == "RESTORE":
        return SIGNS["RESTORE"]
    return SIGNS["UPDATE"]


def _last_event(memory_id: UUID, changes: Sequence[Change]) -> ChangeEvent | None:
    for change in reversed(changes):
        if change.memory_id == memory_id:
            return change.event
    return None


def _ids_of(changes: Iterable[Change], events: Sequence[ChangeEvent]) -> set[UUID]:
    ids: set[UUID] = set()
    for change in changes:
        if change.event in events:
            ids.add(change.memory_id)
    return ids
