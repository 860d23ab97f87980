"""Calls of Mnemic's tools: as a model writes them, as a host's `ToolNode` passes them on, and in an agent."""

import json
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel


def calling(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A model's answer that calls a tool, as it comes over the wire."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


def host(tools: Sequence[BaseTool]) -> Any:
    """A graph that calls what it is told to."""
    graph: Any = StateGraph(MessagesState, context_schema=dict)
    return graph.add_node("tools", ToolNode(tools)).add_edge(START, "tools").compile()


async def called(
    graph: Any, context: object, name: str, arguments: dict[str, Any], said: Sequence[BaseMessage] = ()
) -> ToolMessage:
    """What a tool answers to these arguments, in a conversation in which this was said."""
    call = {"name": name, "args": arguments, "id": "call_1", "type": "tool_call"}
    turn = await graph.ainvoke({"messages": [*said, AIMessage("", tool_calls=[call])]}, context=context)
    message: ToolMessage = turn["messages"][-1]
    return message


async def call(
    memory: Mnemic,
    who: Identity,
    name: str,
    *,
    said: Sequence[BaseMessage] = (),
    role: str = "supervisor",
    **arguments: Any,
) -> ToolMessage:
    """What a role's tool answers, in a conversation in which this was said."""
    return await called(host(memory.tools(role)), who, name, arguments, said)


async def asked(tools: Sequence[BaseTool], context: object, /, **arguments: Any) -> ToolMessage:
    """What `memory_query` answers."""
    return await called(host(tools), context, "memory_query", arguments)


def rows(message: ToolMessage) -> list[dict[str, Any]]:
    """The rows in the answer of `memory_query`, which are its artifact too."""
    assert isinstance(message.content, str)
    sentence, _, document = message.content.partition("\n")
    assert sentence.endswith(".")
    found: list[dict[str, Any]] = json.loads(document)
    assert found == message.artifact
    return found


def agent(model: LoopbackModel, tools: list[BaseTool]) -> Any:
    """An agent of `create_agent` on the scripted model."""
    chat = ChatOpenAI(model="gpt-agent", base_url=model.base_url, api_key="test")  # type: ignore[arg-type]
    return create_agent(chat, tools=tools, context_schema=Identity)


async def answered(model: LoopbackModel, tools: list[BaseTool], context: object, /, **arguments: Any) -> ToolMessage:
    """What `memory_query` answered an agent whose model called it so."""
    script(model, **arguments)
    turn = await agent(model, tools).ainvoke({"messages": [HumanMessage("Well?")]}, context=context)
    return tool_message(turn)


def script(model: LoopbackModel, /, **arguments: Any) -> None:
    """The next request calls `memory_query`, the one after that ends the turn."""
    model.answer(lambda _: True, calling("memory_query", **arguments), "Done.")


def tool_message(turn: dict[str, Any]) -> ToolMessage:
    """The only answer of a tool in a turn that came to its end."""
    assert turn["messages"][-1].text == "Done."
    (message,) = [item for item in turn["messages"] if isinstance(item, ToolMessage)]
    return message
