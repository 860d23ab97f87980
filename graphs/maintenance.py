"""The maintenance graph: one node, `maintain`, for all memories of the context's agent."""

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.memory.runtime.graph import hide_untracked, with_resources
from mnemic.memory.runtime.resources import ENVIRONMENT, Provider
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.maintenance import maintain_agent
from mnemic.state.identity import Identity
from mnemic.state.maintenance import MaintenanceInput, MaintenanceResult, MaintenanceState


def build_maintenance(
    provide: Provider,
) -> CompiledStateGraph[MaintenanceState, Identity, MaintenanceInput, MaintenanceResult]:
    """Return the compiled graph, without checkpoints: all state that must survive a crash is in the database."""
    builder = StateGraph(
        MaintenanceState, context_schema=Identity, input_schema=MaintenanceInput, output_schema=MaintenanceResult
    )
    builder.add_node("maintain", with_resources(provide, maintain_agent))
    builder.add_edge(START, "maintain")
    builder.add_edge("maintain", END)
    return trace_without_contents(hide_untracked(builder.compile(name="maintenance", checkpointer=False)), provide)


graph = build_maintenance(ENVIRONMENT)
