"""The refinement graph: `open -> agent <-> tools -> close`, for the core memory of one scope key."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.nodes.refinement import call_tools, close_refinement, open_refinement, take_turn
from mnemic.operations.run.events import Tracked
from mnemic.operations.run.graph import hide_untracked, tracked, with_lease, with_resources
from mnemic.operations.run.resources import Provider, from_environment
from mnemic.operations.run.tracing import trace_without_contents
from mnemic.state.identity import Identity
from mnemic.state.refinement import RefinementInput, RefinementResult, RefinementState
from mnemic.tools.refinement import refinement_tools


def build_refinement(
    provide: Provider,
) -> CompiledStateGraph[RefinementState, Identity, RefinementInput, RefinementResult]:
    """The compiled graph. It keeps no checkpoints: a session that was broken off is taken up from its row."""
    builder = StateGraph(
        RefinementState, context_schema=Identity, input_schema=RefinementInput, output_schema=RefinementResult
    )
    turn, calls = partial(take_turn, make_tools=refinement_tools), partial(call_tools, make_tools=refinement_tools)
    builder.add_node("open", with_resources(provide, tracked(open_refinement, Tracked("refinement", "open"))))
    builder.add_node("agent", with_lease(provide, tracked(turn, Tracked("refinement", "agent"))))
    builder.add_node("tools", with_lease(provide, tracked(calls, Tracked("refinement", "tools"))))
    builder.add_node("close", with_lease(provide, tracked(close_refinement, Tracked("refinement", "close"))))
    builder.add_edge(START, "open")
    builder.add_conditional_edges("open", _after_open, ["agent", "close", END])
    builder.add_conditional_edges("agent", _after_turn, ["tools", "agent", "close"])
    builder.add_conditional_edges("tools", lambda state: "close" if state["ending"] else "agent", ["agent", "close"])
    return trace_without_contents(hide_untracked(builder.compile(name="refinement", checkpointer=False)), provide)


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
    return "tools" if state["turns"] else "agent"


graph = build_refinement(from_environment)
