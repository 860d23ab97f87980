"""The supervisor's tools: what its last message calls is done."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime

from mnemic.nodes.supervisor.agent import FORGET
from mnemic.nodes.supervisor.progress import tell
from mnemic.operations.messages.transcript import last_calls, withheld
from mnemic.operations.run.node_types import SupervisorNode
from mnemic.prompts.supervise import DECLINED
from mnemic.state.identity import Identity
from mnemic.state.supervisor import SupervisorState


def use_tools(tools: Sequence[BaseTool]) -> SupervisorNode:
    """Does the calls side by side, but those that the user declined; what they answer is for this turn alone."""
    # not by the name of its node, as which its messages would be streamed
    node = ToolNode(list(tools), name="calls")
    known = {tool.name for tool in tools}

    async def use_tools(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
        calls = last_calls(state["messages"])
        declined = [call_id for call_id in state.get("declined", ()) if call_id in calls]
        wanted = [call for call_id, call in calls.items() if call_id not in declined]
        tell(runtime, "tools", [name for call in wanted if (name := str(call["name"])) in known])
        refused = [ToolMessage(DECLINED, tool_call_id=one, name=FORGET, status="error") for one in declined]
        asked = AIMessage("", tool_calls=wanted)
        done = (
            await node.ainvoke({**state, "messages": [*state["messages"][:-1], asked]}) if wanted else {"messages": []}
        )
        kept, said = withheld(done["messages"])
        return {"messages": [*refused, *kept], "tool_answers": {**state.get("tool_answers", {}), **said}}

    return use_tools
