"""The recall graph: `decide -> read_context -> render`, without a model and without a write."""

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.graphs.visibility import hide_untracked
from mnemic.nodes.recall.decide import decide_search
from mnemic.nodes.recall.read_context import read_context
from mnemic.nodes.recall.render import render
from mnemic.operations.run.resources import Provider, from_environment
from mnemic.state.graphs import RecallInput, RecallOutput, RecallState
from mnemic.state.identity import Identity

RecallGraph = CompiledStateGraph[RecallState, Identity, RecallInput, RecallOutput]


def build_recall(provide: Provider) -> RecallGraph:
    """The compiled graph. Few nodes, for each costs half a millisecond on every turn."""
    builder = StateGraph(RecallState, context_schema=Identity, input_schema=RecallInput, output_schema=RecallOutput)
    builder.add_node("decide", decide_search)
    builder.add_node("read_context", read_context(provide))
    builder.add_node("render", render(provide))
    builder.add_edge(START, "decide")
    builder.add_edge("decide", "read_context")
    builder.add_edge("read_context", "render")
    builder.add_edge("render", END)
    return hide_untracked(builder.compile(name="recall", checkpointer=False))


graph = build_recall(from_environment)
