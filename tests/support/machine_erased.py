"""What an erasure of a person has to take: told from the model's past alone."""

from collections.abc import Callable, Collection, Iterable, Iterator
from uuid import UUID

from tests.support.machine_past import Change, Past, Row


def of_person(past: Past) -> set[UUID]:
    """The memories in Ana's own scope keys, and those that what she said went into. Nobody else has said anything."""
    said = any(past.sources.values())
    return {
        memory_id
        for memory_id, row in past.memories().items()
        if row["scope_key"] == "user:ana" or past.sources[memory_id] or (said and row["source_session_id"] == "s1")
    }


def with_repeating(past: Past, memory_ids: Iterable[UUID]) -> set[UUID]:
    """With these those that may repeat what they say, now or back then."""
    found: set[UUID] = set()
    waiting = list(memory_ids)
    while waiting:
        memory_id = waiting.pop()
        if memory_id not in found:
            found.add(memory_id)
            waiting += _repeating(past, memory_id)
    return found


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
