"""The supervisor's last node: what was said goes in."""

from functools import partial
from typing import Any

from langgraph.pregel import Pregel
from langgraph.runtime import Runtime

from mnemic.nodes.supervisor.progress import tell
from mnemic.operations.formation.form import form_due, formation_name
from mnemic.operations.messages.transcript import spoken
from mnemic.operations.messages.turn import TurnMemory, observe_turn
from mnemic.operations.run.identity import supervising
from mnemic.operations.run.node_types import SupervisorNode
from mnemic.operations.run.resources import Provider
from mnemic.state.identity import Identity
from mnemic.state.supervisor import SupervisorState


def observe_said(provide: Provider, memory: TurnMemory, formation: Pregel[Any, Identity, Any, Any]) -> SupervisorNode:
    """Stores the turn, and has formed what is due; it waits for no model."""

    async def observe_said(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
        tell(runtime, "observe")
        resources, identity = await provide(), supervising(runtime)
        await observe_turn(memory, identity, spoken(state["messages"]), revision=state.get("memory_revision"))
        resources.background.begin(formation_name(identity), partial(form_due, resources, formation, identity))
        return {}

    return observe_said
