"""The steps of a formation: their order, each recorded as an event, and the formation as one call."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple
from uuid import UUID, uuid4

from mnemic.memory.consolidation.steps import consolidate
from mnemic.memory.formation import candidates, decisions, extraction, intake, saving
from mnemic.memory.runtime.graph import formation_lease, release_lease_on_error
from mnemic.memory.runtime.identity import acting_for
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.tracing import traced
from mnemic.state.errors import MnemicError
from mnemic.state.graphs import ConsolidationOutput, FormationInput, FormationOutput, FormationRun, FormationState
from mnemic.state.identity import Identity

_LOG = logging.getLogger("mnemic")
#: A step between the gate and the consolidations.
StepName = Literal["extract_facts", "find_similar", "decide", "extract_reflections", "extract_observations", "save"]


class Step(NamedTuple):
    """One step of a formation."""

    #: Operation that returns the run with its results.
    operate: Callable[[Resources, Identity, FormationRun], Awaitable[FormationRun]]
    #: Steps that may follow.
    targets: tuple[StepName, ...] = ()
    #: Chooses one of several targets.
    choose: Callable[[FormationRun], StepName] | None = None

    def after(self, run: FormationRun) -> StepName | None:
        """Return the step that follows, or None at the end."""
        if self.choose:
            return self.choose(run)
        return self.targets[0] if self.targets else None


def after_gate(run: FormationRun) -> StepName | None:
    """Return extraction in one call or in turn, or None if no formation is due."""
    if not run.reason:
        return None
    if run.extraction == "single":
        return "extract_observations"
    return "extract_facts"


def _after_facts(run: FormationRun) -> StepName:
    """Return the comparison with stored facts, if there is a new fact."""
    if run.facts:
        return "find_similar"
    return "extract_reflections"


def _after_similar(run: FormationRun) -> StepName:
    """Return the decision, if a new fact may change a stored one."""
    if run.candidates:
        return "decide"
    return "extract_reflections"


#: Steps that may follow the gate.
FIRST_STEPS: Final[tuple[StepName, ...]] = ("extract_facts", "extract_observations")
STEPS: Final[Mapping[StepName, Step]] = {
    "extract_facts": Step(extraction.extract_facts, ("find_similar", "extract_reflections"), _after_facts),
    "find_similar": Step(candidates.find_similar, ("decide", "extract_reflections"), _after_similar),
    "decide": Step(decisions.decide, ("extract_reflections",)),
    "extract_reflections": Step(extraction.extract_reflections, ("save",)),
    "extract_observations": Step(extraction.extract_observations, ("save",)),
    "save": Step(saving.save),
}


async def form(resources: Resources, identity: Identity, request: FormationInput) -> FormationOutput:
    """Run the steps of the formation graph without the graph, whose own run costs as much as the steps."""
    lease = formation_lease(identity, uuid4(), retry=request.get("retry", False))
    async with traced(resources, "formation", lease.holder), release_lease_on_error(resources, identity, lease):
        run = await gate(resources, identity, request, lease.holder)
        run = replace(run, run_id=str(lease.holder))
        step = after_gate(run)
        while step:
            run = await run_step(resources, identity, run, step)
            step = STEPS[step].after(run)
        consolidations = await _consolidate_all(resources, identity, run.due)
    output = to_state(run)
    output["consolidations"] = consolidations
    return output


async def gate(resources: Resources, identity: Identity, request: FormationInput, holder: UUID) -> FormationRun:
    """Take up the messages of the session if a formation is due."""
    with resources.recorded(identity, "formation", "gate") as outcome:
        run = await intake.take_up(resources, identity, request, holder)
        if not run.reason:
            outcome.status = "skipped"
    return run


async def run_step(resources: Resources, identity: Identity, run: FormationRun, step: StepName) -> FormationRun:
    """Return the run with the results of a step."""
    with resources.recorded(identity, "formation", step):
        return await STEPS[step].operate(resources, identity, run)


def to_state(run: FormationRun) -> FormationState:
    """Return a run and its public figures as an update of the graph's state."""
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


async def _consolidate_all(
    resources: Resources, identity: Identity, scope_keys: Sequence[str]
) -> list[ConsolidationOutput]:
    """Consolidate the due scope keys in parallel; cancel the others if one ends by an unexpected error."""
    tasks: list[asyncio.Task[ConsolidationOutput]] = []
    for key in scope_keys:
        tasks.append(asyncio.create_task(consolidate_due(resources, identity, key)))
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def consolidate_due(resources: Resources, identity: Identity, key: str) -> ConsolidationOutput:
    """Consolidate a scope key after a formation, and return the result; an error leaves its reflections waiting.

    After a success it runs again, since another formation may have found this run busy and left its reflections.
    """
    identity = acting_for(identity, key)
    result = latest = await _consolidate(resources, identity, key)
    while latest["outcome"] == "saved":
        latest = await _consolidate(resources, identity, key)
        if latest["outcome"] == "saved":
            result = {**latest, "absorbed": result["absorbed"] + latest["absorbed"]}
    return result


async def _consolidate(resources: Resources, identity: Identity, key: str) -> ConsolidationOutput:
    try:
        return await consolidate(resources, identity, {"scope_key": key})
    except MnemicError as error:
        text = "Could not consolidate %s of agent %s: %s. Its reflections wait for the next consolidation."
        ids = {"agent_id": identity.agent_id, "scope_key": key}
        _LOG.warning(text, key, identity.agent_id, error, extra=ids)
        return {"scope_key": key, "outcome": "failed", "absorbed": 0, "kept_share": 1.0}
