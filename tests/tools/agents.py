"""Agents of the host that call tools as a scripted model says."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI

from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel, calling


def agent(model: LoopbackModel, tools: list[BaseTool], name: str, **arguments: Any) -> Any:
    """An agent of `create_agent` whose scripted model calls this tool so, and then ends its turn."""
    model.answer(lambda _: True, calling((name, arguments)), "Done.")
    chat = ChatOpenAI(model="gpt-agent", base_url=model.base_url, api_key="test")  # type: ignore[arg-type]
    return create_agent(chat, tools=tools, context_schema=Identity)


def tool_message(turn: dict[str, Any]) -> ToolMessage:
    """The only answer of a tool in a turn that came to its end."""
    assert turn["messages"][-1].text == "Done."
    (message,) = [item for item in turn["messages"] if isinstance(item, ToolMessage)]
    return message
