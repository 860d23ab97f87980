"""Nodes of the refinement graph: open a session, let its agent take turns and call tools, and close it."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from mnemic.memory.refinement import turns
from mnemic.memory.refinement.ending import close
from mnemic.memory.refinement.opening import open_refinement as open_session
from mnemic.memory.refinement.session import RefinementSession, restore_session
from mnemic.memory.runtime.graph import holder_of
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.state.identity import Identity
from mnemic.state.refinement import RefinementOutput, RefinementState

#: Makes the tools of one session.
ToolFactory = Callable[[RefinementSession], Sequence[BaseTool]]


async def open_refinement(state: RefinementState, resources: Resources, runtime: Runtime[Identity]) -> RefinementState:
    """Begin or resume the session of the scope key if it is due; a dry run only counts the work."""
    opened = await open_session(resources, identity_of(runtime), state, holder_of(runtime))
    if opened["batches"] or opened["ending"]:
        return opened
    # without a session, reset the channels of an earlier run on the same thread
    stale: dict[str, Any] = dict.fromkeys(RefinementOutput.__annotations__.keys() & state.keys())
    return cast("RefinementState", {**stale, **opened})


async def take_turn(
    state: RefinementState, resources: Resources, runtime: Runtime[Identity], make_tools: ToolFactory
) -> RefinementState:
    """Show the batch and its calls so far to the model, and take its next calls."""
    session = restore_session(resources, identity_of(runtime), state)
    return await turns.take_turn(session, state, make_tools(session))


async def call_tools(
    state: RefinementState, resources: Resources, runtime: Runtime[Identity], make_tools: ToolFactory
) -> RefinementState:
    """Run the calls of the last turn one after the other."""
    session = restore_session(resources, identity_of(runtime), state)
    return await turns.call_tools(session, state["turns"], make_tools(session), runtime.stream_writer)


async def close_refinement(state: RefinementState, resources: Resources, runtime: Runtime[Identity]) -> RefinementState:
    """End a session that reached a limit or ran out of calls, and return the figures of its row."""
    row = await close(restore_session(resources, identity_of(runtime), state), state["ending"])
    return {**row.as_result(), "resumed": state["resumed"]}
