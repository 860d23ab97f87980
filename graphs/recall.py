"""The recall graph: `read_context -> decide -> search -> render`. It calls no chat model and writes nothing."""

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.memory.runtime.graph import as_node, as_route, hide_untracked, with_resources
from mnemic.memory.runtime.resources import ENVIRONMENT, Provider
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.recall import decide, read_context, render, search, without_memory
from mnemic.state.graphs import RecallInput, RecallOutput, RecallState
from mnemic.state.identity import Identity


def build_recall(provide: Provider) -> CompiledStateGraph[RecallState, Identity, RecallInput, RecallOutput]:
    """Return the compiled graph, for hosts that run it. Mnemic itself calls `recall`, without the cost of a graph."""
    builder = StateGraph(RecallState, context_schema=Identity, input_schema=RecallInput, output_schema=RecallOutput)
    builder.add_node("read_context", with_resources(provide, read_context, without_memory))
    builder.add_node("decide", with_resources(provide, decide))
    builder.add_node("search", with_resources(provide, search, without_memory))
    builder.add_node("render", as_node(provide, render))
    builder.add_edge(START, "read_context")
    builder.add_conditional_edges("read_context", as_route(_after_reading), ["decide", "render"])
    builder.add_conditional_edges("decide", as_route(_after_decision), ["search", "render"])
    builder.add_edge("search", "render")
    return trace_without_contents(hide_untracked(builder.compile(name="recall", checkpointer=False)), provide)


def _after_reading(state: RecallState) -> str:
    """Return the decision, or the end if the database is unavailable."""
    return "render" if state["degraded"] else "decide"


def _after_decision(state: RecallState) -> str:
    """Return the search, if the turn needs one."""
    return "search" if state["searched"] else "render"


graph = build_recall(ENVIRONMENT)
