"""The steps of a recall, each recorded as an event, and the recall as one call."""

import logging
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter

from mnemic.memory.recall import context
from mnemic.memory.recall.search import best_similarity
from mnemic.memory.runtime.identity import log_ids
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import BusyError, DatabaseUnavailableError, MnemicError
from mnemic.state.graphs import RecallInput, RecallReading, RecallState
from mnemic.state.identity import Identity
from mnemic.state.records import SearchResult

_LOG = logging.getLogger("mnemic")
#: The adapter is built at its first use, not at import.
_RESULTS: Final = TypeAdapter(list[SearchResult], config=ConfigDict(defer_build=True))


async def recall(resources: Resources, identity: Identity, request: RecallInput) -> RecallState:
    """Run the steps of the recall graph without the graph, whose own run costs as much as the steps."""
    try:
        state = await _read_and_search(resources, identity, request)
    except (BusyError, DatabaseUnavailableError) as error:
        state = without_memory(identity, error)
    return {**state, **context.render_context(state["reading"], state["results"], identity.user_id)}


async def _read_and_search(resources: Resources, identity: Identity, request: RecallInput) -> RecallState:
    state = await read(resources, identity, request)
    decision = decide(resources, identity, request, state["reading"])
    if decision["searched"] is None:
        return {**state, **decision}
    searched = await search(resources, identity, decision["question"], state["reading"])
    return {**state, **decision, **searched}


# The event of a search names its user and its best similarity. The other events are summed up, so that not every turn
# writes rows for them.


async def read(resources: Resources, identity: Identity, request: RecallInput) -> RecallState:
    """Read the context and the changes to announce."""
    with resources.events.timed(identity, "recall", "read", counts_person=False):
        return await context.read_context(resources, identity, request)


def decide(resources: Resources, identity: Identity, request: RecallInput, reading: RecallReading) -> RecallState:
    """Decide whether the turn needs a search."""
    with resources.events.timed(identity, "recall", "classify", counts_person=False) as outcome:
        decision = context.decide_search(resources, request, reading)
        if decision["searched"] is None:
            outcome.status = "skipped"
    resources.write_events()
    return decision


async def search(resources: Resources, identity: Identity, question: str, reading: RecallReading) -> RecallState:
    """Search for the question of the turn."""
    with resources.events.timed(identity, "recall", "search") as outcome:
        searched = await context.search_for_turn(resources, identity, question, reading)
        outcome.sim = best_similarity(searched["results"])
    resources.write_events()
    return searched


def without_memory(identity: Identity, error: MnemicError) -> RecallState:
    """Log that a recall goes without memory because of this error, and return its state."""
    _LOG.warning("This recall goes without memory: %s", error, extra=log_ids(identity))
    return context.without_memory(error)


def to_json(results: Sequence[SearchResult]) -> list[dict[str, Any]]:
    """Return search results as plain JSON, as the graph outputs them."""
    rows: list[dict[str, Any]] = _RESULTS.dump_python([*results], mode="json")
    return rows
