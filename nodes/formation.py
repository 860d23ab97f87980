"""Nodes of the formation graph."""

from langgraph.runtime import Runtime

from mnemic.memory.formation import candidates, decisions, extraction, intake, saving
from mnemic.memory.formation.saving import consolidate_due
from mnemic.memory.runtime.events import Outcome
from mnemic.memory.runtime.graph import AnyGraph, holder_of
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import validate
from mnemic.state.graphs import ConsolidationInput, FormationInput, FormationRun, FormationState
from mnemic.state.identity import Identity


async def gate(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Take up the messages of the session if a formation is due, and reset the figures of an earlier run."""
    request = validate(FormationInput, state)
    run = await intake.take_up(resources, identity_of(runtime), request, holder_of(runtime))
    return {**_update(run), "lease": run.lease, "consolidations": []}


async def extract_facts(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Draw facts from the messages."""
    return _update(await extraction.extract_facts(resources, identity_of(runtime), state["run"]))


async def find_similar(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Drop facts that are stored already, and find the stored facts that the others may change."""
    return _update(await candidates.find_similar(resources, identity_of(runtime), state["run"]))


async def decide(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Decide which stored facts the new ones change."""
    return _update(await decisions.decide(resources, identity_of(runtime), state["run"]))


async def extract_reflections(
    state: FormationState, resources: Resources, runtime: Runtime[Identity]
) -> FormationState:
    """Draw reflections and an episode from the messages."""
    return _update(await extraction.extract_reflections(resources, identity_of(runtime), state["run"]))


async def extract_observations(
    state: FormationState, resources: Resources, runtime: Runtime[Identity]
) -> FormationState:
    """Draw observations from the messages, in place of facts and reflections."""
    return _update(await extraction.extract_observations(resources, identity_of(runtime), state["run"]))


async def save(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """Store the memories and settle the messages in one operation."""
    info = runtime.execution_info
    return _update(await saving.save(resources, identity_of(runtime), state["run"], info.run_id if info else None))


async def consolidate(state: ConsolidationInput, runtime: Runtime[Identity], graph: AnyGraph) -> FormationState:
    """Consolidate one scope key with the consolidation graph."""
    return {"consolidations": [await consolidate_due(graph, identity_of(runtime), state["scope_key"])]}


def _update(run: FormationRun) -> FormationState:
    """Return the state update of a run: the run and its public figures."""
    return {
        "run": run,
        "reason": run.reason,
        "waits": run.waits,
        "formed": len(run.batch),
        "pending": run.pending,
        "quarantined": run.quarantined,
        "stored": dict(run.stored),
        "superseded": run.superseded,
        "repeated": run.repeated,
        "checks": dict(run.checks),
        "refused": dict(run.refused),
        "uncovered_messages": run.uncovered_messages,
        "spent": list(run.spent),
    }


def note_gate(update: FormationState, outcome: Outcome) -> None:
    """Note a gate that starts no formation as skipped."""
    if not update.get("reason"):
        outcome.status = "skipped"
