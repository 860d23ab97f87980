"""Agents of the host that call tools as a scripted model says."""

import json
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel, Reply


def calling(name: str, /, **arguments: Any) -> Reply:
    """A model's answer that calls a tool."""
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return Reply(message={"tool_calls": [call]})


def agent(model: LoopbackModel, tools: list[BaseTool]) -> Any:
    """An agent of `create_agent` on the scripted model."""
    chat = ChatOpenAI(model="gpt-agent", base_url=model.base_url, api_key="test")  # type: ignore[arg-type]
    return create_agent(chat, tools=tools, context_schema=Identity)


async def answered(model: LoopbackModel, tools: list[BaseTool], context: object, /, **arguments: Any) -> ToolMessage:
    """What `memory_query` answered an agent whose model called it so."""
    script(model, **arguments)
    asked = {"messages": [HumanMessage("Well?")]}
    turn = await agent(model, tools).ainvoke(asked, context=context)
    return tool_message(turn)


async def asked(tools: Sequence[BaseTool], context: object, /, **arguments: Any) -> ToolMessage:
    """What `memory_query` answers where a host's `ToolNode` calls it, as any agent does in the end."""
    return await called(host(tools), context, "memory_query", arguments)


def host(tools: Sequence[BaseTool]) -> Any:
    """A graph that calls what it is told to."""
    graph: Any = StateGraph(MessagesState, context_schema=dict)
    return graph.add_node("tools", ToolNode(tools)).add_edge(START, "tools").add_edge("tools", END).compile()


async def called(graph: Any, context: object, name: str, arguments: dict[str, Any]) -> ToolMessage:
    """What a tool answers to these arguments."""
    call = {"name": name, "args": arguments, "id": "call_1", "type": "tool_call"}
    turn = await graph.ainvoke({"messages": [AIMessage("", tool_calls=[call])]}, context=context)
    message: ToolMessage = turn["messages"][-1]
    return message


def script(model: LoopbackModel, /, **arguments: Any) -> None:
    """The next request calls `memory_query`, the one after that ends the turn."""
    model.answer(lambda _: True, calling("memory_query", **arguments), "Done.")


def tool_message(turn: dict[str, Any]) -> ToolMessage:
    """The only answer of a tool in a turn that came to its end."""
    assert turn["messages"][-1].text == "Done."
    (message,) = [one for one in turn["messages"] if isinstance(one, ToolMessage)]
    return message


def rows(message: ToolMessage) -> list[dict[str, Any]]:
    """The rows in a tool's answer, which are its artifact too."""
    assert isinstance(message.content, str)
    sentence, _, document = message.content.partition("\n")
    assert sentence.endswith(".")
    found: list[dict[str, Any]] = json.loads(document)
    assert found == message.artifact
    return found
