"""The steps of a consolidation, each recorded as an event, and the consolidation as one call."""

from typing import Literal
from uuid import UUID, uuid4

from mnemic.memory.consolidation import collecting, saving, writing
from mnemic.memory.consolidation.saving import NewText
from mnemic.memory.runtime.graph import release_lease_on_error
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.tracing import traced
from mnemic.state.graphs import ConsolidationInput, ConsolidationOutput, ConsolidationState, Lease
from mnemic.state.identity import Identity


async def consolidate(resources: Resources, identity: Identity, request: ConsolidationInput) -> ConsolidationOutput:
    """Run the steps of the consolidation graph without the graph."""
    lease = Lease("consolidation", request["scope_key"], uuid4())
    async with traced(resources, "consolidation", lease.holder), release_lease_on_error(resources, identity, lease):
        state = await collect(resources, identity, request, lease.holder)
        if after_collect(state) == "write":
            state = {**state, **await write(resources, identity, state)}
            if after_write(state) == "save":
                state = {**state, **await save(resources, identity, state)}
    return {
        "scope_key": state["scope_key"],
        "outcome": state["outcome"],
        "absorbed": state["absorbed"],
        "kept_share": state["kept_share"],
        "problem": state["problem"],
        "spent": state.get("spent", []),
    }


def after_collect(state: ConsolidationState) -> Literal["write"] | None:
    """Return the next step: the model's call, or None if no consolidation is due."""
    return "write" if "snapshot" in state else None


def after_write(state: ConsolidationState) -> Literal["save"] | None:
    """Return the next step: the save, or None if the text was refused."""
    return "save" if state["text"] else None


async def collect(
    resources: Resources, identity: Identity, request: ConsolidationInput, holder: UUID
) -> ConsolidationState:
    """Read the texts of the scope key under a lease, if its consolidation is due."""
    with resources.recorded(identity, "consolidation", "collect") as outcome:
        state = await collecting.collect(resources, identity, request, holder)
        outcome.status = _status_of(state)
    return state


async def write(resources: Resources, identity: Identity, state: ConsolidationState) -> ConsolidationState:
    """Write the new text; a text that cannot be used is refused, and nothing changes."""
    with resources.recorded(identity, "consolidation", "write") as outcome:
        written = await writing.write(resources, identity, state["lease"], state["snapshot"])
        outcome.status = _status_of(written)
    return written


async def save(resources: Resources, identity: Identity, state: ConsolidationState) -> ConsolidationState:
    """Replace the text and absorb the reflections, if all texts are still as they were read."""
    new = NewText(state["text"], state["kept_share"])
    with resources.recorded(identity, "consolidation", "save") as outcome:
        saved = await saving.save(resources, identity, state["lease"], state["snapshot"], new)
        outcome.status = _status_of(saved)
    return saved


def _status_of(state: ConsolidationState) -> Literal["ok", "skipped"]:
    if state.get("outcome", "saved") == "saved":
        return "ok"
    return "skipped"
