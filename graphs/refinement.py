"""The refinement graph: `open -> agent <-> knife -> close`, for the core memory of one scope key (seed C)."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.graphs.resources import from_environment
from mnemic.graphs.routes import after_knife, after_open, after_turn
from mnemic.nodes.refinement.agent import take_turn
from mnemic.nodes.refinement.close import close_refinement
from mnemic.nodes.refinement.open import open_refinement
from mnemic.nodes.refinement.tools import use_knife
from mnemic.operations.refinement.release import held
from mnemic.operations.run.resources import Provider
from mnemic.state.graphs import RefinementInput, RefinementState
from mnemic.state.identity import Identity
from mnemic.state.refinement import RefinementResult
from mnemic.tools.refinement_tools import make_knife

RefinementGraph = CompiledStateGraph[RefinementState, Identity, RefinementInput, RefinementResult]


def build_refinement(provide: Provider) -> RefinementGraph:
    """The compiled graph. It keeps no checkpoints: a session that was broken off is taken up from its row."""
    builder = StateGraph(
        RefinementState, context_schema=Identity, input_schema=RefinementInput, output_schema=RefinementResult
    )
    holding = partial(held, provide)
    builder.add_node("open", open_refinement(provide))
    builder.add_node("agent", holding(take_turn(provide, make_knife)))
    builder.add_node("knife", holding(use_knife(provide, make_knife)))
    builder.add_node("close", holding(close_refinement(provide)))
    builder.add_edge(START, "open")
    builder.add_conditional_edges("open", after_open, ["agent", "close", END])
    builder.add_conditional_edges("agent", after_turn, ["knife", "agent", "close"])
    builder.add_conditional_edges("knife", after_knife, ["agent", "close"])
    builder.add_edge("close", END)
    return builder.compile(name="refinement", checkpointer=False)


graph = build_refinement(from_environment)
