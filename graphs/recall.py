"""The recall graph: `read_context -> decide -> search -> render`. It asks no chat model and writes nothing."""

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.nodes.recall import decide, or_without_memory, read_context, render, search
from mnemic.operations.run.graph import hide_untracked, with_resources
from mnemic.operations.run.resources import Provider, from_environment
from mnemic.operations.run.tracing import trace_without_contents
from mnemic.state.graphs import RecallInput, RecallOutput, RecallState
from mnemic.state.identity import Identity


def build_recall(provide: Provider) -> CompiledStateGraph[RecallState, Identity, RecallInput, RecallOutput]:
    """The compiled graph. Few nodes, for each costs half a millisecond on every turn."""
    builder = StateGraph(RecallState, context_schema=Identity, input_schema=RecallInput, output_schema=RecallOutput)
    builder.add_node("read_context", or_without_memory(with_resources(provide, read_context)))
    builder.add_node("decide", with_resources(provide, decide))
    builder.add_node("search", or_without_memory(with_resources(provide, search)))
    builder.add_node("render", render)
    builder.add_edge(START, "read_context")
    builder.add_conditional_edges(
        "read_context", lambda state: "render" if state["degraded"] else "decide", ["decide", "render"]
    )
    builder.add_conditional_edges(
        "decide", lambda state: "search" if state["searched"] else "render", ["search", "render"]
    )
    builder.add_edge("search", "render")
    return trace_without_contents(hide_untracked(builder.compile(name="recall", checkpointer=False)), provide)


graph = build_recall(from_environment)
