"""The small numbers by which a refinement's model calls memories: never their ids, and the same for the whole run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self
from uuid import UUID

from mnemic.state.refinement import LedgerEntry


class Shown(NamedTuple):
    """A memory as the model was shown it last."""

    id: UUID
    version: int


@dataclass
class Handles:
    """Numbers given in the order in which the memories were first seen."""

    _shown: dict[int, Shown] = field(default_factory=dict)

    @classmethod
    def from_plain(cls, rows: Mapping[str, tuple[str, int]]) -> Self:
        """From a channel."""
        return cls({int(number): Shown(UUID(memory_id), version) for number, (memory_id, version) in rows.items()})

    def to_plain(self) -> dict[str, tuple[str, int]]:
        """For a channel."""
        return {str(number): (str(shown.id), shown.version) for number, shown in self._shown.items()}

    def numbered(self, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """The entries with their numbers, new ones for those not seen before; they are about to be shown."""
        known = {shown.id: number for number, shown in self._shown.items()}
        numbered: list[LedgerEntry] = []
        for entry in entries:
            number = known.get(entry.id) or len(self._shown) + 1
            self._shown[number] = Shown(entry.id, entry.version)
            numbered.append(replace(entry, handle=number))
        return numbered

    def of(self, memory_id: UUID) -> int | None:
        """The number of a memory; None for one not seen."""
        return next((number for number, shown in self._shown.items() if shown.id == memory_id), None)

    def shown(self, number: int) -> Shown | None:
        """What stands behind a number; None where nothing does."""
        return self._shown.get(number)
