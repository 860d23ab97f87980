"""What is stored of a run's new memories: how many, and how they are related. Pure."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any
from uuid import UUID

from mnemic.state.records import NewMemory, Relation

#: A fact to be closed, as `decide` wrote it down.
Closing = Mapping[str, Any]


def most_important(new: Sequence[NewMemory], most: int) -> list[NewMemory]:
    """So many memories, the most important ones, in the order given; among equals the first."""
    ranked = sorted(new, key=lambda memory: -memory.importance)
    kept = {memory.id for memory in ranked[:most]}
    return [memory for memory in new if memory.id in kept]


def within_cap(
    new: Sequence[NewMemory], closing: Sequence[Closing], most: int | None
) -> tuple[list[NewMemory], list[Closing]]:
    """What is stored of a run, and the closings that then still have both ends.

    A fact that the run itself closes gives way first, for without its successor it would pass as true; what it was to
    close, its successor closes. Without a cap all is stored.
    """
    if most is None or len(new) <= most:
        return [*new], [*closing]
    successors = {row["old_id"]: row["new_id"] for row in closing}
    made = {str(memory.id) for memory in new}
    kept = most_important([memory for memory in new if str(memory.id) not in successors], most)
    ids = {str(memory.id) for memory in kept}
    rows = [{**row, "new_id": _last(row["new_id"], successors)} for row in closing if row["old_id"] not in made]
    return kept, [row for row in rows if row["new_id"] in ids]


def related_to_living(new: Sequence[NewMemory], closing: Sequence[Closing]) -> list[NewMemory]:
    """The memories without relations from or to what the run closes, for that is known by its successor."""
    closed = {UUID(row["old_id"]) for row in closing}
    return [replace(memory, relations=_to_living(memory, closed)) for memory in new]


def _to_living(memory: NewMemory, closed: Set[UUID]) -> tuple[Relation, ...]:
    if memory.id in closed:
        return ()
    return tuple(relation for relation in memory.relations if relation.to_id not in closed)


def _last(memory_id: str, successors: Mapping[str, str]) -> str:
    """The end of a chain of closings; it has one, for a fact closes only what was said before it."""
    while memory_id in successors:
        memory_id = successors[memory_id]
    return memory_id
