"""Agents with a scripted model: a host's own, the supervisor, and a `ToolNode` that calls what it is told to."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from mnemic import MemoryMiddleware, Mnemic
from mnemic.graphs.supervisor import SupervisorGraph
from mnemic.models.chat import ChatModels
from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel, Request, calling, offering
from tests.support.scripted import FACTS, REFLECTIONS, fact, facts, reflection, reflections, say
from tests.support.worlds import identity

MONDAY = identity("ana", session="monday")
FRIDAY = identity("ana", session="friday")
#: In every memory, and in nothing that is said in the host's own thread.
CANARY = "Zinnober"
KEPT = f"Ana keeps bees called {CANARY} on the quay."
WISH = f"Ana wants {CANARY} in every answer."
QUESTION = "Do you remember where my bees are on the quay?"
GREETING = "Good morning."
PROMPT = "You are a guide to the harbour."
#: In the host's own messages, which are saved.
VISIBLE = "Quittengelb"
THREAD: Any = {"configurable": {"thread_id": "t1"}}


def is_agent(request: Request) -> bool:
    """From a host's agent, or from the supervisor, which alone is offered the planner."""
    return bool(request["model"] == "gpt-agent") or offering("planner")(request)


def agent(memory: Mnemic, model: LoopbackModel, own: MemoryMiddleware | None = None, **settings: Any) -> Any:
    chat = ChatOpenAI(model="gpt-agent", base_url=model.base_url, api_key="test", max_retries=0)  # type: ignore[arg-type]
    return create_agent(chat, **{"system_prompt": PROMPT, "middleware": [own or memory.middleware()], **settings})


def requests(model: LoopbackModel) -> list[Request]:
    return [request for request in model.chat_requests if is_agent(request)]


def system_of(request: Request) -> Any:
    (system,) = [message["content"] for message in request["messages"] if message["role"] == "system"]
    return system


def asked_in(request: Request) -> Any:
    """The last message of a user, with what memory says to it."""
    return [message["content"] for message in request["messages"] if message["role"] == "user"][-1]


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def stored(superuser: psycopg.Connection, session: str = "friday") -> list[tuple[str, str]]:
    return superuser.execute(
        "select role, content from mnemic.messages where session_id = %s order by said_at, content", (session,)
    ).fetchall()


@contextmanager
def storing_nothing(superuser: psycopg.Connection) -> Iterator[None]:
    """Meanwhile no message can be stored."""
    superuser.execute("revoke insert on mnemic.messages from mnemic_app")
    try:
        yield
    finally:
        superuser.execute("grant insert on mnemic.messages to mnemic_app")


async def remember(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(KEPT)), facts())
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)]), reflections())
    await say(memory, MONDAY, "I keep bees on the quay.")


ANA = identity("ana", session="friday")


def says(model: LoopbackModel, *answers: Any) -> None:
    """What the agent's own model answers, in turn."""
    model.answer(is_agent, *(answers or (VISIBLE,)))


def not_streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model answers whole, as one does that cannot stream."""
    usual = ChatModels.get

    def whole(*given: Any, **named: Any) -> Any:
        made = usual(*given, **named)
        return made and made.model_copy(update={"disable_streaming": True})

    monkeypatch.setattr(ChatModels, "get", whole)


def forgetting(*ids: object) -> dict[str, Any]:
    """An answer that has these memories forgotten."""
    return calling(*(("forget", {"id": str(item)}) for item in ids))


async def keep(memory: Mnemic, content: str = KEPT, *, importance: int = 3, **given: Any) -> str:
    """A memory of Ana's from another session; its id."""
    elsewhere = ANA.model_copy(update={"session_id": "monday"})
    kept = await memory.remember(elsewhere, content, category="activity", importance=importance, **given)
    return str(kept.id)


def thread(session: str = "friday") -> Any:
    return {"configurable": {"thread_id": session}}


async def turn(graph: SupervisorGraph, text: str = QUESTION, who: Identity = ANA, **given: Any) -> Any:
    """What a turn leaves."""
    return await graph.ainvoke({"messages": [HumanMessage(text)]}, thread(who.session_id or "t"), context=who, **given)


def answers_of(request: Request) -> list[str]:
    """What the model reads of tools."""
    return [str(message["content"]) for message in request["messages"] if message["role"] == "tool"]


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
