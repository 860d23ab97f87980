"""A host's turns after an earlier session: an agent of `create_agent` with a scripted model, and what was stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from mnemic import MemoryMiddleware, Mnemic
from tests.support.loopback import LoopbackModel, Request
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
    return bool(request["model"] == "gpt-agent")


def answers(model: LoopbackModel, *replies: Any) -> None:
    """What the agent's own model says, in turn."""
    model.answer(is_agent, *(replies or (VISIBLE,)))


def agent(memory: Mnemic, model: LoopbackModel, middleware: MemoryMiddleware | None = None, **settings: Any) -> Any:
    chat = ChatOpenAI(model="gpt-agent", base_url=model.base_url, api_key="test", max_retries=0)  # type: ignore[arg-type]
    return create_agent(
        chat, **{"system_prompt": PROMPT, "middleware": [middleware or memory.middleware()], **settings}
    )


def requests(model: LoopbackModel) -> list[Request]:
    return [request for request in model.chat_requests if is_agent(request)]


def system_of(request: Request) -> Any:
    (system,) = [message["content"] for message in request["messages"] if message["role"] == "system"]
    return system


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
