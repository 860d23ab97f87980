"""The supervisor's tools: what its last message calls is done."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime

from mnemic.nodes.supervisor.agent import FORGET
from mnemic.operations.messages.transcript import last_calls, without_contents
from mnemic.operations.run.graph import SupervisorNode, stream_progress
from mnemic.prompts.supervise import DECLINED
from mnemic.state.identity import Identity
from mnemic.state.supervisor import SupervisorState


def use_tools(tools: Sequence[BaseTool]) -> SupervisorNode:
    """Does the calls side by side, but those that the user declined; what they answer is for this turn alone."""
    # not by the name of its node, as which its messages would be streamed
    node = ToolNode(list(tools), name="calls")
    known = {tool.name for tool in tools}

    async def run(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
        calls = last_calls(state["messages"])
        declined = [call_id for call_id in state.get("declined", ()) if call_id in calls]
        wanted = [call for call_id, call in calls.items() if call_id not in declined]
        stream_progress(runtime, "tools", [name for call in wanted if (name := str(call["name"])) in known])
        refused = [ToolMessage(DECLINED, tool_call_id=call_id, name=FORGET, status="error") for call_id in declined]
        answers: list[ToolMessage] = []
        if wanted:
            last = AIMessage("", tool_calls=wanted)
            answers = (await node.ainvoke({**state, "messages": [*state["messages"][:-1], last]}))["messages"]
        kept, contents = without_contents(answers)
        return {"messages": [*refused, *kept], "tool_answers": {**state.get("tool_answers", {}), **contents}}

    return run
