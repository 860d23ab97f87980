"""The nodes of the consolidation graph, for one scope key: read its texts, write the new text, save it."""

from langgraph.runtime import Runtime

from mnemic.memory.consolidation import steps
from mnemic.memory.runtime.graph import holder_of
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.state.graphs import ConsolidationState
from mnemic.state.identity import Identity


async def collect(state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]) -> ConsolidationState:
    """Read the texts of the scope key under a lease, if its consolidation is due."""
    return await steps.collect(resources, identity_of(runtime), state, holder_of(runtime))


async def write_consolidation(
    state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]
) -> ConsolidationState:
    """Write the new text; a text that cannot be used is refused, and nothing changes."""
    return await steps.write(resources, identity_of(runtime), state)


async def save_consolidation(
    state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]
) -> ConsolidationState:
    """Replace the text and absorb the reflections, if all texts are still as they were read."""
    return await steps.save(resources, identity_of(runtime), state)
