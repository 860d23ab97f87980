"""Memories stored as the service stores them, each with what a request may ask for."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mnemic.operations.run.resources import Resources
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from mnemic.storage import memories
from tests.support.worlds import MORNING, memory


def fact(
    content: str, category: str, *, key: str = "user:ana", valid_from: datetime = MORNING, **fields: Any
) -> NewMemory:
    """A fact of a category, with further fields of the record."""
    return replace(memory(content, key=key, valid_from=valid_from), category=category, **fields)


async def know(resources: Resources, who: Identity, *new: NewMemory, run_id: str | None = None) -> Sequence[NewMemory]:
    """Stores memories with their vectors in one operation; actor and role are the identity's."""
    made = await resources.embedder.embed([one.search_text for one in new])
    vectors = {one.id: vector for one, vector in zip(new, made, strict=True)}
    async with resources.database.scoped(who) as scoped:
        await scoped.execute("insert into agents (agent_id) values (%(agent_id)s) on conflict do nothing", {})
        await scoped.begin_operation("formation", run_id=run_id)
        stored = await memories.insert(scoped, new, model=resources.embedder.name, vectors=vectors, run_id=run_id)
    assert stored == {one.id for one in new}
    return new
