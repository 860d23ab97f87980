"""The texts of a consolidation."""

from collections.abc import Sequence
from dataclasses import dataclass

from mnemic.state.records import Memory, StaleMemory


@dataclass(frozen=True, kw_only=True)
class ConsolidationSnapshot:
    """The texts of one scope key as a run has read them."""

    #: Display name of the scope's owner.
    owner: str
    #: The agent's persona; empty for another scope, or without one.
    persona: str
    #: The consolidation, if there is one.
    current: Memory | None
    #: Unabsorbed reflections that the run takes in.
    reflections: Sequence[Memory]
    #: Statements of these texts that no longer hold.
    stale: Sequence[StaleMemory]
    word_limit: int
    guidance: str
