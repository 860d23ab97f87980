"""What a run stores of its new memories: how many, how related, and what repeats what is known already. Pure."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from mnemic.state.formation import Closing, Repeat
from mnemic.state.identity import scope_key
from mnemic.state.records import Memory, Message, NewMemory, Relation


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
    successors = {row.old_id: row.new_id for row in closing}
    made = {memory.id for memory in new}
    kept = most_important([memory for memory in new if memory.id not in successors], most)
    ids = {memory.id for memory in kept}
    rows = [replace(row, new_id=_last(row.new_id, successors)) for row in closing if row.old_id not in made]
    return kept, [row for row in rows if row.new_id in ids]


def related_to_living(new: Sequence[NewMemory], closing: Sequence[Closing]) -> list[NewMemory]:
    """The memories without relations from or to what the run closes, for that is known by its successor."""
    closed = {row.old_id for row in closing}
    return [replace(memory, relations=_to_living(memory, closed)) for memory in new]


def _to_living(memory: NewMemory, closed: Set[UUID]) -> tuple[Relation, ...]:
    if memory.id in closed:
        return ()
    return tuple(relation for relation in memory.relations if relation.to_id not in closed)


def _last(memory_id: UUID, successors: Mapping[UUID, UUID]) -> UUID:
    """The end of a chain of closings; it has one, for a fact closes only what was said before it."""
    while memory_id in successors:
        memory_id = successors[memory_id]
    return memory_id


class Known(NamedTuple):
    """What a new text may repeat."""

    id: UUID
    scope_key: str
    content: str
    #: Stored before this run, and not a memory of the same run.
    is_stored: bool

    @classmethod
    def of(cls, memory: Memory | NewMemory) -> "Known":
        return cls(memory.id, memory.scope_key, memory.content, isinstance(memory, Memory))


def repeat(new: NewMemory, known_id: UUID, *, is_stored: bool, key: str | None = None) -> Repeat:
    """That this memory was dropped for what is known.

    Args:
        is_stored: whether that was stored before this run.
        key: its scope key, where it is not that of the new one.
    """
    return Repeat(
        id=new.id,
        known_id=known_id,
        scope_key=key or new.scope_key,
        is_stored=is_stored,
        messages=new.source_message_ids,
    )


def further_sources(
    repeats: Sequence[Repeat], new: Iterable[NewMemory], batch: Iterable[Message]
) -> list[tuple[UUID, UUID]]:
    """Memories, each with a message that says it again; what was repeated by what was itself dropped, at its end.

    What is shared rests on those alone who told it first: who only agrees can be erased without it.
    """
    speakers = {message.id: message.user_id and scope_key("user", message.user_id) for message in batch}
    ends = _Ends(repeats, {memory.id for memory in new})
    return sorted(
        {
            (end, message)
            for row in repeats
            if row.scope_key.startswith(("user:", "session:"))
            for end in ends.of(row, set())
            for message in row.messages
            if speakers.get(message, "") in (None, row.scope_key)
        }
    )


class _Ends:
    def __init__(self, repeats: Iterable[Repeat], made: set[UUID]) -> None:
        self._made = made
        self._by_id: dict[UUID, list[Repeat]] = {}
        for row in repeats:
            self._by_id.setdefault(row.id, []).append(row)

    def of(self, row: Repeat, passed: set[UUID]) -> set[UUID]:
        """What a row leads to that is stored in the end; two may have been taken for repeats of one another."""
        if row.is_stored or row.known_id in self._made:
            return {row.known_id}
        if row.known_id in passed:
            return set()
        further = self._by_id.get(row.known_id, ())
        return {end for next_row in further for end in self.of(next_row, passed | {row.known_id})}
