"""The node of the maintenance graph."""

from dataclasses import asdict
from typing import cast

from langgraph.runtime import Runtime

from mnemic.memory.background.maintenance.run import maintain
from mnemic.memory.runtime.identity import identity_of, require_own_scope
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import validate
from mnemic.state.graphs import StepUsage
from mnemic.state.identity import Identity, scope_key
from mnemic.state.maintenance import MaintenanceInput, MaintenanceState


async def maintain_agent(state: MaintenanceState, resources: Resources, runtime: Runtime[Identity]) -> MaintenanceState:
    """Maintain the agent of the context; a request of a server's user is refused, because others share the agent."""
    identity = identity_of(runtime)
    require_own_scope(identity, scope_key("agent", identity.agent_id))
    dry_run = validate(MaintenanceInput, state).get("dry_run")
    run = await maintain(resources, identity, dry_run=dry_run)
    return {
        "run_id": str(run.id),
        "is_dry_run": run.is_dry_run,
        "counts": run.counts,
        "spent": [cast(StepUsage, asdict(usage)) for usage in run.spent],
    }
