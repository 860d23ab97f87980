"""Refinement: the calls of a turn, one after the other, each an operation of its own."""

from collections.abc import Mapping

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from mnemic.operations.refinement.session import KnifeFactory, refining_of
from mnemic.operations.run.node_types import RefinementNode
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.serialization import from_plain, to_plain
from mnemic.prompts.refinement_tools import no_such_tool, unreadable
from mnemic.state.graphs import RefinementState
from mnemic.state.identity import Identity
from mnemic.state.refinement import ToolCall, Turn

COMPLETING = "complete_refinement"


def use_knife(provide: Provider, make_knife: KnifeFactory) -> RefinementNode:
    """Answers every call; what is refused is an answer too. After the session's end nothing is done any more."""

    async def use_knife(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        refining = await refining_of(provide, state, runtime)
        tools = {tool.name: tool for tool in make_knife(refining)}
        *earlier, turn = from_plain(Turn, state["turns"])
        answered: list[ToolCall] = []
        is_over = False
        for call in turn.calls:
            answer, is_error = await _answer(call, tools)
            is_over = is_over or (call.name == COMPLETING and not is_error)
            answered.append(call._replace(answer=answer))
            # progress, for whoever streams the graph: nothing of what memories say
            runtime.stream_writer({"refinement": str(refining.claim.id), "tool": call.name, "refused": is_error})
        return {
            "turns": to_plain(Turn, [*earlier, turn._replace(calls=tuple(answered))]),
            "handles": refining.handles.to_plain(),
            "ending": "completed" if is_over else None,
        }

    return use_knife


async def _answer(call: ToolCall, tools: Mapping[str, BaseTool]) -> tuple[str, bool]:
    """What the model is told, and whether it was refused."""
    if call.arguments is None:
        return unreadable(), True
    if call.name not in tools:
        return no_such_tool(list(tools)), True
    asked = {"type": "tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)}
    message = await tools[call.name].ainvoke(asked)
    return str(message.content), isinstance(message, ToolMessage) and message.status == "error"
