"""The nodes of the recall graph. None of them calls a chat model or writes."""

from langgraph.runtime import Runtime

from mnemic.memory.recall import context, steps
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import validate
from mnemic.state.errors import MnemicError
from mnemic.state.graphs import RecallInput, RecallState
from mnemic.state.identity import Identity


def without_memory(error: MnemicError, runtime: Runtime[Identity]) -> RecallState:
    """Return the update of a recall whose database is unavailable: the turn goes on without memory."""
    return steps.without_memory(identity_of(runtime), error)


async def read_context(state: RecallState, resources: Resources, runtime: Runtime[Identity]) -> RecallState:
    """Read the memories that are always in context and the changes to announce."""
    return await steps.read(resources, identity_of(runtime), validate(RecallInput, state))


async def decide(state: RecallState, resources: Resources, runtime: Runtime[Identity]) -> RecallState:
    """Decide whether the turn needs a search."""
    return steps.decide(resources, identity_of(runtime), validate(RecallInput, state), state["reading"])


async def search(state: RecallState, resources: Resources, runtime: Runtime[Identity]) -> RecallState:
    """Search for the question of the turn."""
    return await steps.search(resources, identity_of(runtime), state["question"], state["reading"])


async def render(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
    """Render the context of the turn, and the results as plain JSON."""
    rendered = context.render_context(state["reading"], state["results"], identity_of(runtime).user_id)
    return {**rendered, "memories": steps.to_json(state["results"])}
