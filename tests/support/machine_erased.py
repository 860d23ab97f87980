"""What an erasure of a person has to take: told from the model's past alone."""

from collections.abc import Collection, Iterable, Iterator
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


def taken_in(past: Past, erased: Collection[object]) -> set[UUID]:
    """What these stood for: reflections of consolidations, and what was merged into one that nobody had forgotten."""
    return {
        memory_id
        for memory_id, row in past.memories().items()
        if memory_id not in erased
        and (row["consolidated_into"] in erased or (row["state"] == "soft_deleted" and _is_merged(past, row, erased)))
    }


def _is_merged(past: Past, row: Row, erased: Collection[object]) -> bool:
    into = (link[0] for link in past.links() if link[1:] == (row["id"], "merged_from"))
    return any(new_id in erased and not _is_forgotten(past, new_id) for new_id in into)


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
        if at >= erased_at:
            yield from (change.after[name] for name in ("superseded_by", "consolidated_into") if change.after[name])
        elif _moves(change, "absorbed"):  # its contents are gone, and the operation alone tells of it
            yield from (_id(other) for other in beside if _is_like(other, change, "consolidation"))
        elif _moves(change, "superseded"):
            yield from (_id(other) for other in beside if _is_like(other, change, "fact") and other.before is None)


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
