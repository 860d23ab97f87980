"""A user's message is stored when its turn begins, whatever the agent's other middleware does to the thread later."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from openai import InternalServerError

from mnemic import Mnemic
from tests.support.agents import FRIDAY, QUESTION, THREAD, VISIBLE, agent, asked_in, is_agent, requests, said, says
from tests.support.loopback import LoopbackModel, calling
from tests.support.middlewares import Editing, drop_two, drop_users, rewrite, summarizing
from tests.support.scripted import scripted_memory
from tests.support.server import Clone

FACTS = ("I keep bees on the quay.", "My sister is called Alba.", "My boat is green.")
SUMMARY = "They spoke of the harbour."


@tool
def look() -> str:
    """Looks at the quay."""
    return "The quay is open."


OTHERS: dict[str, Callable[[LoopbackModel], AgentMiddleware[Any, Any, Any]]] = {
    "trimming": lambda _: Editing(drop_two),
    "dropping all but the last": lambda _: Editing(drop_users),
    "summarizing": summarizing,
    "rewriting": lambda _: Editing(rewrite),
}


def users_words(superuser: psycopg.Connection) -> list[str]:
    rows = superuser.execute(
        "select content from mnemic.messages where session_id = 'friday' and role = 'user' order by place"
    )
    return [content.removeprefix("- ") for (content,) in rows]


async def talk(running: Any, model: LoopbackModel) -> None:
    """Three turns, each with a call of the tool."""
    model.answer(lambda request: not is_agent(request), SUMMARY)
    says(model, *[calling(("look", {})), VISIBLE] * len(FACTS))
    for text in FACTS:
        await running.ainvoke(said(text), THREAD, context=FRIDAY)


@pytest.mark.parametrize("other", OTHERS)
async def test_each_user_message_is_stored_once_whatever_happens_to_the_thread(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, other: str
) -> None:
    order = [memory.middleware(form=False), OTHERS[other](model)]
    await talk(agent(memory, model, middleware=order, checkpointer=InMemorySaver(), tools=[look]), model)
    assert users_words(superuser) == list(FACTS)
    answers = superuser.execute("select content from mnemic.messages where role = 'assistant'").fetchall()
    assert answers == [(VISIBLE,)] * len(FACTS)


async def test_a_model_that_fails_costs_no_message(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    says(model, 500, VISIBLE)
    running = agent(memory, model, checkpointer=InMemorySaver())
    with pytest.raises(InternalServerError):
        await running.ainvoke(said(FACTS[0]), THREAD, context=FRIDAY)
    assert users_words(superuser) == [FACTS[0]]
    await running.ainvoke(said(FACTS[1]), THREAD, context=FRIDAY)
    assert users_words(superuser) == [*FACTS[:2]]


async def test_a_turn_that_is_interrupted_and_goes_on_stores_its_message_once(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    says(model, calling(("look", {})), VISIBLE)
    running = agent(memory, model, checkpointer=InMemorySaver(), tools=[look])
    await running.ainvoke(said(FACTS[0]), THREAD, context=FRIDAY, interrupt_before=["tools"])
    assert users_words(superuser) == [FACTS[0]]
    await running.ainvoke(None, THREAD, context=FRIDAY)
    assert users_words(superuser) == [FACTS[0]]


async def test_a_synchronous_turn_stores_at_its_start_too(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    says(model, calling(("look", {})), VISIBLE)
    other = Editing(drop_users)
    running = agent(memory, model, middleware=[memory.middleware(form=False), other], tools=[look])
    await asyncio.to_thread(running.invoke, said(FACTS[0]), context=FRIDAY)
    assert users_words(superuser) == [FACTS[0]]


async def test_a_turns_own_message_is_no_answer_to_it(clean_db: Clone, model: LoopbackModel) -> None:
    """It waits for formation, and no search reads what waits."""
    says(model)
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        running = agent(memory, model, memory.middleware(search="always", form=False), checkpointer=InMemorySaver())
        for _ in range(2):
            await running.ainvoke(said(QUESTION), THREAD, context=FRIDAY)
    assert [asked_in(request) for request in requests(model)] == [QUESTION] * 2
