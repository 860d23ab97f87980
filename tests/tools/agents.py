"""Agents of the host that call tools as a scripted model says."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI

from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel, calling


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


def script(model: LoopbackModel, /, **arguments: Any) -> None:
    """The next request calls `memory_query`, the one after that ends the turn."""
    model.answer(lambda _: True, calling(("memory_query", arguments)), "Done.")


def tool_message(turn: dict[str, Any]) -> ToolMessage:
    """The only answer of a tool in a turn that came to its end."""
    assert turn["messages"][-1].text == "Done."
    (message,) = [item for item in turn["messages"] if isinstance(item, ToolMessage)]
    return message
