"""What says again what is known already: its messages become sources of what they repeat. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from mnemic.state.identity import scope_key
from mnemic.state.records import Memory, Message, NewMemory

#: A new memory that was dropped, what it repeats, and the messages that said it, as a graph carries it.
Repeat = Mapping[str, Any]


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


def repeats(new: NewMemory, known: Iterable[tuple[str | UUID, bool]], key: str | None = None) -> list[dict[str, Any]]:
    """That this memory was dropped for what is known: each with its id, and whether it was stored before this run."""
    messages = [str(message) for message in new.source_message_ids]
    return [
        {
            "id": str(new.id),
            "of": str(of),
            "stored": is_stored,
            "scope_key": key or new.scope_key,
            "messages": messages,
        }
        for of, is_stored in known
    ]


def further_sources(
    rows: Sequence[Repeat], new: Iterable[NewMemory], batch: Iterable[Message]
) -> list[tuple[UUID, UUID]]:
    """Memories, each with a message that says it again; what was repeated by what was itself dropped, at its end.

    What is shared rests on those alone who told it first: who only agrees can be erased without it.
    """
    speakers = {str(message.id): message.user_id and scope_key("user", message.user_id) for message in batch}
    ends = _Ends(rows, {str(memory.id) for memory in new})
    return sorted(
        {
            (UUID(end), UUID(message))
            for row in rows
            if row["scope_key"].startswith(("user:", "session:"))
            for end in ends.of(row, set())
            for message in row["messages"]
            if speakers.get(message, "") in (None, row["scope_key"])
        }
    )


class _Ends:
    def __init__(self, rows: Iterable[Repeat], made: set[str]) -> None:
        self._made = made
        self._by_id: dict[str, list[Repeat]] = {}
        for row in rows:
            self._by_id.setdefault(row["id"], []).append(row)

    def of(self, row: Repeat, passed: set[str]) -> set[str]:
        """What a row leads to that is stored in the end; two may have been taken for repeats of one another."""
        if row["stored"] or row["of"] in self._made:
            return {row["of"]}
        if row["of"] in passed:
            return set()
        return {end for next_row in self._by_id.get(row["of"], ()) for end in self.of(next_row, passed | {row["of"]})}
