"""The supervisor's last node: what was said goes in."""

from langgraph.runtime import Runtime

from mnemic.operations.formation.form import FormationGraph, form_later
from mnemic.operations.messages.observe import observe_turn
from mnemic.operations.messages.transcript import spoken
from mnemic.operations.run.graph import SupervisorNode, stream_progress
from mnemic.operations.run.identity import supervisor_identity
from mnemic.operations.run.resources import Provider
from mnemic.state.identity import Identity
from mnemic.state.supervisor import SupervisorState


def observe_said(provide: Provider, formation: FormationGraph) -> SupervisorNode:
    """Stores the turn, and has formed what is due; it waits for no model."""

    async def run(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
        stream_progress(runtime, "observe")
        resources, identity = await provide(), supervisor_identity(runtime)
        await observe_turn(resources, identity, spoken(state["messages"]), revision=state.get("memory_revision"))
        form_later(resources, formation, identity)
        return {}

    return run
