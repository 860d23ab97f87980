"""The delta header: which of the changes since the last turn an agent is told of, and how. Pure rules."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from mnemic.memory.text.shape import clip_text
from mnemic.state.attribution import attribution_for
from mnemic.state.identity import scope_key
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

MAX_BULLETS: Final = 3
_REMOVING: Final = ("DELETE", "TTL", "PURGE", "ERASE")
_TAKEN_IN: Final = ("ABSORB", "MERGE")


def header(changes: Changes, reader: str | None = None) -> Delta | None:
    """Return what to announce to a user, or None."""
    news = _announcements(changes, reader)
    if changes.since is None or not news:
        return None
    return Delta(
        since=changes.since,
        bullets=tuple(news.values())[:MAX_BULLETS],
        total=len(news),
        changes=tuple(change for change in changes.changes if _end(change.memory_id, changes.known) in news),
        shown=tuple(end for end, bullet in [*news.items()][:MAX_BULLETS] if bullet.text),
    )


def bullets(changes: Changes, reader: str | None = None) -> tuple[Bullet, ...]:
    """Return everything there is to announce to a user.

    What happened to one memory is one bullet, and so is a memory with those that it superseded or took in. The most
    important come first, of equally important ones the newest.
    """
    return tuple(_announcements(changes, reader).values())


def _announcements(changes: Changes, reader: str | None) -> dict[UUID, Bullet]:
    """Return the bullets in order, by the memory at the end of each course."""
    groups: defaultdict[UUID, list[Change]] = defaultdict(list)
    for change in changes.changes:
        groups[_end(change.memory_id, changes.known)].append(change)

    def rank(end: UUID) -> tuple[int, int]:
        ids = {end, *(change.memory_id for change in groups[end])}
        importance = max((changes.known[memory_id].importance for memory_id in ids & changes.known.keys()), default=0)
        return -importance, -groups[end][-1].revision

    found: dict[UUID, Bullet] = {}
    for end in sorted(groups, key=rank):
        memory = changes.known.get(end)
        if memory and memory.state == "active":
            found[end] = _bullet(end, groups[end], memory, reader)
        elif removal := _removal(end, groups[end], changes, reader):
            found[end] = removal
    return found


def _end(memory_id: UUID, known: Mapping[UUID, Known]) -> UUID:
    seen = {memory_id}
    while memory_id in known and (successor := known[memory_id].successor) and successor not in seen:
        memory_id = successor
        seen.add(successor)
    return memory_id


def _bullet(end: UUID, own: Sequence[Change], memory: Known, reader: str | None) -> Bullet:
    """Return the bullet of a memory that is active."""
    sign, text, attribution = _sign(end, own), " ".join(memory.beginning.split()), attribution_for(reader, memory)
    if attribution and attribution.said and len(attribution.said) > MAX_SENTENCE_LENGTH:
        text, attribution = "", attribution._replace(said=None)  # without its sentence the text proves nothing
    return Bullet(
        sign=sign,
        category=memory.category,
        text=clip_text(text, MAX_TEXT_LENGTH),
        combined=len(_ids(own, *_TAKEN_IN) - {end}) if sign == SIGNS["MERGE"] else 0,
        importance=memory.importance if text else None,
        attribution=attribution,
    )


def _removal(end: UUID, own: Sequence[Change], changes: Changes, reader: str | None) -> Bullet | None:
    """Return the bullet of a removed memory, without its text, or None if the reader has not seen it."""
    sign, memory = _sign(end, own), changes.known.get(end)
    if memory and sign not in (SIGNS["DELETE"], SIGNS["ERASE"]):
        return None  # by the agent itself, which knows of that, or by a change that the next header announces
    ids = {end, *(change.memory_id for change in own)}
    if not any(_was_seen(memory_id, changes, reader) for memory_id in ids):
        return None
    removed = memory or changes.known.get(own[-1].memory_id)
    return Bullet(sign=sign, category=own[-1].category, text="", kind=removed.kind if removed else None)


def _was_seen(memory_id: UUID, changes: Changes, reader: str | None) -> bool:
    """Whether the session has shown the memory; without a session, whether it is in the reader's own scope."""
    if changes.shown is not None:
        return memory_id in changes.shown
    memory = changes.known.get(memory_id)
    return memory is not None and reader is not None and memory.scope_key == scope_key("user", reader)


def _sign(end: UUID, own: Sequence[Change]) -> Sign:
    last = next((change.event for change in reversed(own) if change.memory_id == end), None)
    if last in _REMOVING:
        return SIGNS[last]
    if _ids(own, *_TAKEN_IN) - {end}:
        return SIGNS["MERGE"]
    if {end, *(change.memory_id for change in own)} == _ids(own, "ADD"):
        return SIGNS["ADD"]
    return SIGNS["RESTORE"] if last == "RESTORE" else SIGNS["UPDATE"]


def _ids(own: Iterable[Change], *events: ChangeEvent) -> set[UUID]:
    return {change.memory_id for change in own if change.event in events}
