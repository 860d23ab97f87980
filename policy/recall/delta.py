"""The delta header: which of the changes since the last turn an agent is told of, and how. Pure rules."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from mnemic.policy.text.shape import clip_text
from mnemic.state.attribution import attribution_for
from mnemic.state.query import Bullet, Change, Changes, Delta, Event, Known, Sign

#: What each event of the history is announced as.
SIGNS: Final[Mapping[Event, Sign]] = {
    "ADD": "+created",
    "UPDATE": "↑updated",
    "SUPERSEDE": "↑updated",
    "ABSORB": "↔merged",
    "MERGE": "↔merged",
    "DELETE": "~soft-deleted",
    "TTL": "~soft-deleted",
    "PURGE": "−deleted",
    "ERASE": "−deleted",
    "RESTORE": "⟲restored",
}
#: Reasons of what an agent does by its tools: it knows of that, where it was done in its own session.
EXPLICIT: Final = ("remember", "correct", "forget", "remember_procedure")
MOST_BULLETS: Final = 3
#: Characters of a bullet's text: three of them stay below 150 tokens.
LONGEST_TEXT: Final = 150
#: Characters of a typed sentence that a bullet shows; the text of a longer one is left out with it.
LONGEST_SENTENCE: Final = 2 * LONGEST_TEXT
_REMOVING: Final = ("DELETE", "TTL", "PURGE", "ERASE")
_TAKEN_IN: Final = ("ABSORB", "MERGE")


def header(changes: Changes, reader: str | None = None) -> Delta | None:
    """Return what to announce to a user, or None."""
    news = bullets(changes, reader)
    if changes.since is None or not news:
        return None
    return Delta(since=changes.since, bullets=news[:MOST_BULLETS], total=len(news))


def bullets(changes: Changes, reader: str | None = None) -> tuple[Bullet, ...]:
    """Return everything there is to announce to a user.

    What happened to one memory is one bullet, and so is a memory with those that it superseded or took in. The most
    important come first, of equally important ones the newest.
    """
    groups: defaultdict[UUID, list[Change]] = defaultdict(list)
    for change in changes.changes:
        groups[_end(change.memory_id, changes.known)].append(change)

    def rank(end: UUID) -> tuple[int, int]:
        ids = {end, *(change.memory_id for change in groups[end])}
        importance = max((changes.known[memory_id].importance for memory_id in ids & changes.known.keys()), default=0)
        return -importance, -groups[end][-1].seq

    found = (_bullet(end, groups[end], changes.known, reader) for end in sorted(groups, key=rank))
    return tuple(filter(None, found))


def _end(memory_id: UUID, known: Mapping[UUID, Known]) -> UUID:
    seen = {memory_id}
    while memory_id in known and (successor := known[memory_id].successor) and successor not in seen:
        memory_id = successor
        seen.add(successor)
    return memory_id


def _bullet(end: UUID, own: Sequence[Change], known: Mapping[UUID, Known], reader: str | None) -> Bullet | None:
    memory = known.get(end)
    sign = _sign(end, own)
    if memory and memory.state in ("soft_deleted", "purged") and sign not in (SIGNS["DELETE"], SIGNS["ERASE"]):
        return None  # by the agent itself, which knows of that, or by a change that the next header tells of
    text = " ".join(memory.beginning.split()) if memory and memory.state in ("active", "soft_deleted") else ""
    attribution = attribution_for(reader, memory) if memory else None
    if attribution and attribution.said and len(attribution.said) > LONGEST_SENTENCE:
        text, attribution = "", attribution._replace(said=None)  # without its sentence the text proves nothing
    return Bullet(
        sign=sign,
        category=memory.category if memory else own[-1].category,
        text=clip_text(text, LONGEST_TEXT),
        combined=len(_ids(own, *_TAKEN_IN) - {end}) if sign == SIGNS["MERGE"] else 0,
        importance=memory.importance if memory and text else None,
        attribution=attribution,
    )


def _sign(end: UUID, own: Sequence[Change]) -> Sign:
    last = next((change.event for change in reversed(own) if change.memory_id == end), None)
    if last in _REMOVING:
        return SIGNS[last]
    if _ids(own, *_TAKEN_IN) - {end}:
        return SIGNS["MERGE"]
    if {end, *(change.memory_id for change in own)} == _ids(own, "ADD"):
        return SIGNS["ADD"]
    return SIGNS["RESTORE"] if last == "RESTORE" else SIGNS["UPDATE"]


def _ids(own: Iterable[Change], *events: Event) -> set[UUID]:
    return {change.memory_id for change in own if change.event in events}
