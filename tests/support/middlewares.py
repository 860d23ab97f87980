"""Middleware of a host that acts before or behind memory: LangChain's own, and middleware that edits the thread."""

from collections.abc import Callable, Coroutine
from typing import Any

from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_openai import ChatOpenAI
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from tests.support.loopback import LoopbackModel


class Editing(AgentMiddleware[Any, Any, Any]):
    """Changes the thread before each call of the model, without being asked by its user."""

    def __init__(self, edit: Callable[[list[Any]], list[Any]]) -> None:
        super().__init__()
        self._edit = edit

    @property
    def name(self) -> str:
        """The name of the edit, because an agent has one middleware of each name."""
        return self._edit.__name__

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": self._edit(state["messages"])}


def drop_two(messages: list[Any]) -> list[Any]:
    return [RemoveMessage(id=message.id) for message in messages[:2]] if len(messages) > 2 else []


def drop_users(messages: list[Any]) -> list[Any]:
    """All but the last message, as soon as a tool has answered."""
    return [RemoveMessage(id=message.id) for message in messages[:-1]] if messages[-1].type == "tool" else []


def drop_all_but_last(messages: list[Any]) -> list[Any]:
    """The same without naming the messages."""
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), messages[-1]] if messages[-1].type == "tool" else []


def rewrite(messages: list[Any]) -> list[Any]:
    """Marks each message of a user under its own id, as one does that conceals addresses."""
    users = [message for message in messages if message.type == "human" and not message.text.startswith("- ")]
    return [HumanMessage(f"- {message.text}", id=message.id) for message in users]


def chat_model(model: LoopbackModel, name: str) -> ChatOpenAI:
    """A model of the host by this name, on the scripted endpoint."""
    return ChatOpenAI(model=name, base_url=model.base_url, api_key="test", max_retries=0)  # type: ignore[arg-type]


def summarizing(model: LoopbackModel) -> AgentMiddleware[Any, Any, Any]:
    chat = chat_model(model, "gpt-summary")
    return SummarizationMiddleware(chat, trigger=("messages", 4), keep=("messages", 2))


async def only_recall(recalling: Coroutine[Any, Any, Any], storing: Coroutine[Any, Any, None]) -> Any:
    """Begin a turn without storing its message, in the place of `begin_turn`."""
    storing.close()
    return await recalling
