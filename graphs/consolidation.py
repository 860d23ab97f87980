"""The consolidation graph: `collect -> write -> save`, for one scope key."""

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.memory.consolidation.steps import after_collect, after_write
from mnemic.memory.runtime.graph import as_route, hide_untracked, with_lease, with_resources
from mnemic.memory.runtime.resources import ENVIRONMENT, Provider
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.consolidation import collect, save_consolidation, write_consolidation
from mnemic.state.graphs import ConsolidationInput, ConsolidationOutput, ConsolidationState
from mnemic.state.identity import Identity


def build_consolidation(
    provide: Provider,
) -> CompiledStateGraph[ConsolidationState, Identity, ConsolidationInput, ConsolidationOutput]:
    """Return the compiled graph, without checkpoints: all state that must survive a crash is in the database."""
    builder = StateGraph(
        ConsolidationState, context_schema=Identity, input_schema=ConsolidationInput, output_schema=ConsolidationOutput
    )
    builder.add_node("collect", with_resources(provide, collect))
    builder.add_node("write", with_lease(provide, write_consolidation))
    builder.add_node("save", with_lease(provide, save_consolidation))
    builder.add_edge(START, "collect")
    builder.add_conditional_edges("collect", as_route(_after_collect), ["write", END])
    builder.add_conditional_edges("write", as_route(_after_write), ["save", END])
    return trace_without_contents(hide_untracked(builder.compile(name="consolidation", checkpointer=False)), provide)


# Routes read untracked channels: on a server's thread other channels still hold values of the last run.


def _after_collect(state: ConsolidationState) -> str:
    return after_collect(state) or END


def _after_write(state: ConsolidationState) -> str:
    return after_write(state) or END


graph = build_consolidation(ENVIRONMENT)
