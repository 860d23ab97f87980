"""The consolidation graph: `collect -> write -> save`, for one scope key."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.graphs.resources import from_environment
from mnemic.graphs.routes import after_collect, after_write
from mnemic.nodes.consolidation.collect import collect
from mnemic.nodes.consolidation.save import save_consolidation
from mnemic.nodes.consolidation.write import write_consolidation
from mnemic.operations.run.leases import consolidation_lease_of, holding
from mnemic.operations.run.resources import Provider
from mnemic.state.graphs import ConsolidationInput, ConsolidationResult, ConsolidationState
from mnemic.state.identity import Identity

ConsolidationGraph = CompiledStateGraph[ConsolidationState, Identity, ConsolidationInput, ConsolidationResult]


def build_consolidation(provide: Provider) -> ConsolidationGraph:
    """The compiled graph. It keeps no checkpoints: what must survive a crash is in the database."""
    builder = StateGraph(
        ConsolidationState,
        context_schema=Identity,
        input_schema=ConsolidationInput,
        output_schema=ConsolidationResult,
    )
    held = partial(holding, provide, lease_of=consolidation_lease_of)
    builder.add_node("collect", collect(provide))
    builder.add_node("write", held(write_consolidation(provide)))
    builder.add_node("save", held(save_consolidation(provide)))
    builder.add_edge(START, "collect")
    builder.add_conditional_edges("collect", after_collect, ["write", END])
    builder.add_conditional_edges("write", after_write, ["save", END])
    builder.add_edge("save", END)
    return builder.compile(name="consolidation", checkpointer=False)


graph = build_consolidation(from_environment)
