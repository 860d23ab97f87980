"""A model's call of one of Mnemic's tools, as a host's agent passes it on."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity


async def call(
    memory: Mnemic,
    who: Identity,
    name: str,
    *,
    said: Sequence[BaseMessage] = (),
    role: str = "supervisor",
    **arguments: Any,
) -> ToolMessage:
    """What the tool answers in a conversation in which this was said."""
    builder = StateGraph(MessagesState, context_schema=Identity)
    builder.add_node("tools", ToolNode(memory.tools(role)))
    builder.add_edge(START, "tools")
    asking = AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "call-1", "type": "tool_call"}])
    given: Any = {"messages": [*said, asking]}
    state = await builder.compile().ainvoke(given, context=who)
    answer: ToolMessage = state["messages"][-1]
    return answer
