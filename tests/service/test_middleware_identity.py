"""Whose memory the middleware shows: that of the run's own identity, in the agent's role, and nobody else's."""

import asyncio
import json
from typing import Any

import pytest
from langgraph.runtime import Runtime

from mnemic import Identity, MemoryMiddleware, Mnemic
from mnemic.service.hosts.middleware import TurnOptions
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, MissingIdentityError
from tests.support.agents import (
    CANARY,
    FRIDAY,
    GREETING,
    KEPT,
    MONDAY,
    QUESTION,
    VISIBLE,
    WISH,
    agent,
    answers,
    requests,
    said,
    system_of,
)
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, REFLECTIONS, fact, facts, reflection, reflections, say
from tests.support.tool_calls import calling
from tests.support.worlds import identity


async def test_a_role_is_shown_its_own_allowlist(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(KEPT, category="interests")))
    model.answer(REFLECTIONS, reflections(user=[reflection(WISH)]))
    await say(memory, MONDAY, "I keep bees on the quay.")
    answers(model, calling("memory_query", query="bees on the quay"), VISIBLE)
    planner = agent(memory, model, memory.middleware("planner"))
    await planner.ainvoke(said(QUESTION), context=FRIDAY)

    assert CANARY not in json.dumps(requests(model)[-1]["messages"])


class Sticky(MemoryMiddleware):
    """The control: whoever comes first is taken for everybody."""

    _first: Identity | None = None

    def _identity(self, runtime: Runtime[Any]) -> Identity:
        self._first = self._first or super()._identity(runtime)
        return self._first


async def heard(memory: Mnemic, model: LoopbackModel, middleware: MemoryMiddleware) -> dict[str, set[str]]:
    """Whose memories stood in whose prompt, of two users who ask one agent at the same time."""
    names = ("ana", "ben")
    for name in names:
        model.answer(FACTS, facts(fact(f"{name.title()} keeps bees at {name}'s own quay.", subject=name.title())))
        await say(memory, identity(name, session=f"{name}-1"), "I keep bees on my quay.")
    answers(model)
    running = agent(memory, model, middleware)
    asking = [
        running.ainvoke(said(f"{QUESTION} Yours, {name}"), context=identity(name, session=f"{name}-2"))
        for name in names
    ]
    await asyncio.gather(*asking)
    prompts = {request["messages"][-1]["content"].split()[-1]: system_of(request) for request in requests(model)}
    return {asker: {name for name in names if f"{name}'s own quay" in prompts[asker]} for asker in names}


async def test_two_users_of_one_agent_hear_their_own_memories(memory: Mnemic, model: LoopbackModel) -> None:
    assert await heard(memory, model, memory.middleware()) == {"ana": {"ana"}, "ben": {"ben"}}


@pytest.mark.thorough
async def test_control_an_identity_that_sticks_is_seen(memory: Mnemic, model: LoopbackModel) -> None:
    sticky = Sticky(memory, memory.tools(), TurnOptions(observe=False))
    found = await heard(memory, model, sticky)
    assert found["ana"] == found["ben"] != set()


@pytest.mark.parametrize(
    ("context", "error"),
    [
        (None, MissingIdentityError),
        ({"user_id": "ana"}, MissingIdentityError),
        (identity("ana"), InvalidInputError),
        ({"agent_id": "", "session_id": "s"}, InvalidInputError),
    ],
)
async def test_a_hosts_mistake_shows_before_the_model_is_asked(
    memory: Mnemic, model: LoopbackModel, context: Any, error: type[Exception]
) -> None:
    answers(model)
    with pytest.raises(error):
        await agent(memory, model).ainvoke(said(GREETING), context=context)
    assert requests(model) == []


async def test_an_unknown_role_is_refused_when_the_agent_is_made(memory: Mnemic) -> None:
    with pytest.raises(CategoryRefusedError):
        memory.middleware("janitor")
