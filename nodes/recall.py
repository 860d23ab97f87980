"""The nodes of the recall graph. None of them calls a chat model or writes."""

import logging

from langgraph.runtime import Runtime

from mnemic.memory.recall import context
from mnemic.memory.recall.search import best_similarity
from mnemic.memory.runtime.events import Outcome
from mnemic.memory.runtime.identity import identity_of, log_ids
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import validate
from mnemic.state.errors import MnemicError
from mnemic.state.graphs import RecallInput, RecallState
from mnemic.state.identity import Identity

_LOG = logging.getLogger("mnemic")


async def read_context(state: RecallState, resources: Resources, runtime: Runtime[Identity]) -> RecallState:
    """Read the memories that are always in context and the changes to announce."""
    request = validate(RecallInput, state)
    return await context.read_context(resources, identity_of(runtime), request)


async def decide(state: RecallState, resources: Resources, _: Runtime[Identity]) -> RecallState:
    """Decide whether the turn needs a search."""
    return context.decide_search(resources, state.get("question", ""), state["reading"])


async def search(state: RecallState, resources: Resources, runtime: Runtime[Identity]) -> RecallState:
    """Search for the question of the turn."""
    return await context.search_for_turn(resources, identity_of(runtime), state["question"], state["reading"])


async def render(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
    """Render the context of the turn."""
    return context.render_context(state["reading"], state["results"], identity_of(runtime).user_id)


def without_memory(error: MnemicError, runtime: Runtime[Identity]) -> RecallState:
    """Return the update of a recall whose database is unavailable: the turn goes on without memory."""
    _LOG.warning("This recall goes without memory: %s", error, extra=log_ids(identity_of(runtime)))
    return context.without_memory(error)


def note_decision(update: RecallState, outcome: Outcome) -> None:
    """Note a turn without a search as skipped."""
    if update["searched"] is None:
        outcome.status = "skipped"


def note_search(update: RecallState, outcome: Outcome) -> None:
    """Note the best similarity of a search."""
    outcome.sim = best_similarity(update["results"])
