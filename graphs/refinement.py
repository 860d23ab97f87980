"""The refinement graph: `open -> agent <-> tools -> close`, for the context memory of one scope key."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.memory.runtime.graph import as_route, hide_untracked, recorded, with_lease, with_resources
from mnemic.memory.runtime.resources import ENVIRONMENT, Provider
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.refinement import call_tools, close_refinement, open_refinement, take_turn
from mnemic.state.identity import Identity
from mnemic.state.refinement import RefinementInput, RefinementOutput, RefinementState
from mnemic.tools.refinement import refinement_tools


def build_refinement(
    provide: Provider,
) -> CompiledStateGraph[RefinementState, Identity, RefinementInput, RefinementOutput]:
    """Return the compiled graph, without checkpoints: a session that broke off is resumed from its row."""
    builder = StateGraph(
        RefinementState, context_schema=Identity, input_schema=RefinementInput, output_schema=RefinementOutput
    )
    turn, calls = partial(take_turn, make_tools=refinement_tools), partial(call_tools, make_tools=refinement_tools)
    builder.add_node("open", with_resources(provide, recorded(open_refinement, "refinement", "open")))
    builder.add_node("agent", with_lease(provide, recorded(turn, "refinement", "agent")))
    builder.add_node("tools", with_lease(provide, recorded(calls, "refinement", "tools")))
    builder.add_node("close", with_lease(provide, recorded(close_refinement, "refinement", "close")))
    builder.add_edge(START, "open")
    builder.add_conditional_edges("open", as_route(_after_open), ["agent", "close", END])
    builder.add_conditional_edges("agent", as_route(_after_turn), ["tools", "agent", "close"])
    builder.add_conditional_edges("tools", as_route(_after_tools), ["agent", "close"])
    return trace_without_contents(hide_untracked(builder.compile(name="refinement", checkpointer=False)), provide)


# Routes read untracked channels: on a server's thread other channels still hold values of the last run.


def _after_open(state: RefinementState) -> str:
    """Return the next node: a turn, the close of a session without memories left, or the end if none is due."""
    if state["ending"]:
        return "close"
    return "agent" if state["batches"] else END


def _after_turn(state: RefinementState) -> str:
    """Return the next node: the calls, a turn with the next batch, or the close."""
    if state["ending"]:
        return "close"
    return "tools" if state["turns"] else "agent"


def _after_tools(state: RefinementState) -> str:
    """Return the next node: another turn, or the close."""
    return "close" if state["ending"] else "agent"


graph = build_refinement(ENVIRONMENT)
