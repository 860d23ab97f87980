"""Memories stored as the service stores them, each with what a request may ask for."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mnemic.operations.run.resources import Resources
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from tests.support.worlds import MORNING, memory, remember


def fact(
    content: str, category: str, *, key: str = "user:ana", valid_from: datetime = MORNING, **fields: Any
) -> NewMemory:
    """A fact of a category, with further fields of the record."""
    return replace(memory(content, key=key, valid_from=valid_from), category=category, **fields)


async def know(
    resources: Resources, who: Identity, *new: NewMemory, run_id: str | None = None, also: Sequence[str] = ()
) -> Sequence[NewMemory]:
    """Stores memories with their vectors in one operation; actor and role are the identity's."""
    made = await resources.embedder.embed([item.search_text for item in new])
    vectors = {item.id: vector for item, vector in zip(new, made, strict=True)}
    model = resources.embedder.name
    stored = await remember(resources.database, who, *new, vectors=vectors, model=model, run_id=run_id, also=also)
    assert stored == {memory.id for memory in new}
    return new
