"""Refinement: the calls of a turn, one after the other, each an operation of its own."""

from collections.abc import Mapping

from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from mnemic.operations.refinement.session import ToolFactory, refinement_session
from mnemic.operations.run.graph import RefinementNode
from mnemic.operations.run.resources import Provider
from mnemic.prompts.refinement_tools import COMPLETING
from mnemic.prompts.refusals import UNREADABLE_CALL, unknown_tool
from mnemic.state.identity import Identity
from mnemic.state.refinement import RefinementState, ToolCall


def call_tools(provide: Provider, make_tools: ToolFactory) -> RefinementNode:
    """Answers every call; what is refused is an answer too. After the session's end nothing is done any more."""

    async def call_tools(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        session = await refinement_session(provide, state, runtime)
        tools = {tool.name: tool for tool in make_tools(session)}
        *earlier, turn = state["turns"]
        answered: list[ToolCall] = []
        is_over = False
        for call in turn.calls:
            answer, is_refused = await _answer(call, tools)
            is_over = is_over or (call.name == COMPLETING and not is_refused)
            answered.append(call._replace(answer=answer))
            # progress, for whoever streams the graph: nothing of what memories say
            runtime.stream_writer({"refinement": str(session.claim.id), "tool": call.name, "refused": is_refused})
        return {
            "turns": [*earlier, turn._replace(calls=tuple(answered))],
            "handles": session.handles,
            "ending": "completed" if is_over else None,
        }

    return call_tools


async def _answer(call: ToolCall, tools: Mapping[str, BaseTool]) -> tuple[str, bool]:
    """What the model is told, and whether it was refused."""
    if call.arguments is None:
        return UNREADABLE_CALL, True
    if call.name not in tools:
        return unknown_tool(tools), True
    request = {"type": "tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)}
    message = await tools[call.name].ainvoke(request)
    return str(message.content), message.status == "error"
