"""Nodes of the formation graph."""

from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from mnemic.memory.formation import steps
from mnemic.memory.formation.steps import StepName
from mnemic.memory.runtime.graph import holder_of
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import validate
from mnemic.state.graphs import FormationInput, FormationState
from mnemic.state.identity import Identity


async def gate(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Take up the messages of the session if a formation is due, and reset the figures of an earlier run."""
    request, info = validate(FormationInput, state), runtime.execution_info
    run = await steps.gate(resources, identity_of(runtime), request, holder_of(runtime))
    run = replace(run, run_id=info.run_id if info else None)
    return {**steps.to_state(run), "lease": run.lease, "consolidations": []}


async def run_step(
    state: FormationState, resources: Resources, runtime: Runtime[Identity], step: StepName
) -> FormationState:
    """Run one step."""
    return steps.to_state(await steps.run_step(resources, identity_of(runtime), state["run"], step))


async def consolidate(state: Any, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Consolidate the scope key of a `Send`, which is no state of the graph."""
    return {"consolidations": [await steps.consolidate_due(resources, identity_of(runtime), state["scope_key"])]}
