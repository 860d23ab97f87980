"""The refinement graph: `open -> agent <-> knife -> close`, for the core memory of one scope key (seed C)."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.graphs.visibility import hide_untracked
from mnemic.nodes.refinement.agent import take_turn
from mnemic.nodes.refinement.close import close_refinement
from mnemic.nodes.refinement.open import open_refinement
from mnemic.nodes.refinement.tools import use_knife
from mnemic.operations.refinement.release import held
from mnemic.operations.run.resources import Provider, from_environment
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
    builder.add_conditional_edges("open", _after_open, ["agent", "close", END])
    builder.add_conditional_edges("agent", _after_turn, ["knife", "agent", "close"])
    builder.add_conditional_edges("knife", _after_knife, ["agent", "close"])
    builder.add_edge("close", END)
    return hide_untracked(builder.compile(name="refinement", checkpointer=False))


# Routes ask the untracked channels: on a server's thread the others still hold what the last run left in them.


def _after_open(state: RefinementState) -> str:
    """A session is held, with memories left to work on or none; or nothing is due."""
    if state["ending"]:
        return "close"
    return "agent" if state["batches"] else END


def _after_turn(state: RefinementState) -> str:
    """Calls are to be done, the next batch follows, or the session is over."""
    if state["ending"]:
        return "close"
    return "knife" if state["turns"] else "agent"


def _after_knife(state: RefinementState) -> str:
    """The agent has ended the session, or goes on."""
    return "close" if state["ending"] else "agent"


graph = build_refinement(from_environment)
