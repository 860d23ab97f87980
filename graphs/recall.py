"""The recall graph: `read_context -> decide -> search -> render`. It calls no chat model and writes nothing."""

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.memory.runtime.graph import as_node, hide_untracked, with_resources
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
    builder.add_conditional_edges(
        "read_context", lambda state: "render" if state["degraded"] else "decide", ["decide", "render"]
    )
    builder.add_conditional_edges(
        "decide", lambda state: "search" if state["searched"] else "render", ["search", "render"]
    )
    builder.add_edge("search", "render")
    return trace_without_contents(hide_untracked(builder.compile(name="recall", checkpointer=False)), provide)


graph = build_recall(ENVIRONMENT)
