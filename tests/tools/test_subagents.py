"""Sub-agents work in their own role: what it may read and nothing else, with its tools, and unheard."""

from typing import Any

import psycopg
import pytest

from mnemic import Mnemic
from mnemic.prompts.messages.supervise import SUBAGENTS, UNFINISHED
from mnemic.tools.memory import make_tools
from mnemic.tools.subagents import MAX_TURNS, subagent
from tests.support.agents import called, host
from tests.support.loopback import LoopbackModel, Request, calling, offered
from tests.support.scripted import memory as memory
from tests.support.worlds import identity

ANA = identity("ana", session="s1", groups=["crew"])
GOAL = "Ana means to sail to Ryd."
TONE = "Ana likes a dry tone in Ryd."
ALWAYS = "Never quote prices to Ana."


async def asked(memory: Mnemic, role: str, task: str = "Find out about Ryd.", tools_of: str | None = None) -> Any:
    tool = subagent(memory._provide, role, make_tools(memory._provide, tools_of or role))
    return await called(host([tool]), ANA, role, {"task": task})


def works(model: LoopbackModel, *answers: Any) -> list[Request]:
    """A sub-agent's model says this; what it is sent."""
    sent: list[Request] = []

    def is_subagents(request: Request) -> bool:
        fits = "You work alone on one task" in str(request["messages"][0]["content"])
        sent.extend([request] if fits else [])
        return fits

    model.answer(is_subagents, *(answers or (calling(("memory_query", {"query": "Ryd"})), "Found.")))
    return sent


async def keep(memory: Mnemic) -> None:
    await memory.remember(ANA, GOAL, category="goals")
    await memory.remember(ANA, TONE, category="style")
    await memory.remember(ANA, ALWAYS, category="goals", kind="core")


async def test_each_works_with_what_its_role_may_read(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory)
    for role, sees in {"planner": (True, False), "executor": (False, False), "researcher": (False, False)}.items():
        sent = works(model)
        answer = await asked(memory, role)
        assert (answer.status, answer.text) == ("success", "Found.")
        told = str(sent[-1]["messages"])
        assert (role, GOAL in told, TONE in told) == (role, *sees)
        assert ALWAYS not in told  # the standing part is the supervisor's


@pytest.mark.thorough
async def test_control_with_the_supervisors_tools_it_would_read_all(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory)
    sent = works(model)
    await asked(memory, "planner", tools_of="supervisor")
    assert TONE in str(sent[-1]["messages"])


@pytest.mark.parametrize("role", SUBAGENTS)
async def test_none_writes_more_than_its_role(memory: Mnemic, model: LoopbackModel, role: str) -> None:
    kept = await memory.remember(ANA, GOAL, category="goals")
    writes = calling(
        ("forget", {"id": str(kept.id)}),
        ("remember", {"content": "Ana sinks ships.", "category": "goals", "importance": 3}),
    )
    sent = works(model, writes, "Done.")
    await asked(memory, role)
    own = {"executor": ["memory_query", "remember_procedure"]}.get(role, ["memory_query"])
    assert offered(sent[0]) == own
    assert [item.content for item in await memory.memories(ANA)] == [GOAL]
    assert [item["content"] for item in sent[-1]["messages"] if item["role"] == "tool"] == [
        f"Error: {name} is not a valid tool, try one of [{', '.join(own)}]." for name in ("forget", "remember")
    ]


async def test_subagent_sees_its_task_alone_is_not_observed_and_its_tokens_count(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    sent = works(model, "Done.")
    await asked(memory, "researcher", "What of \x1b Ryd?")
    system, task = sent[0]["messages"]
    assert "as its researcher" in system["content"]
    assert task["content"] == "What of  Ryd?"
    assert superuser.execute("select count(*) from mnemic.messages").fetchall() == [(0,)]
    (used,) = await memory.usage.tokens(ANA)
    assert (used.step, used.tier, used.model) == ("researcher", "agent", "openai:gpt-5.1")
    assert (used.calls, used.input_tokens, used.output_tokens) == (1, 100, 10)


async def test_one_that_comes_to_no_end_is_ended(memory: Mnemic, model: LoopbackModel) -> None:
    sent = works(model, calling(("memory_query", {"query": "Ryd"})))
    answer = await asked(memory, "planner")
    assert answer.text == UNFINISHED.format(turns=MAX_TURNS)
    assert len(sent) == MAX_TURNS


async def test_a_model_that_fails_and_a_task_that_cannot_be_used_are_an_answer(
    memory: Mnemic, model: LoopbackModel
) -> None:
    works(model, 500)
    answer = await asked(memory, "planner")
    assert answer.status == "error"
    assert "scripted" not in answer.text
    tasks: list[Any] = ["", None, 5, "x" * 20_001]
    for task in tasks:
        answer = await asked(memory, "planner", task)
        assert answer.status == "error"
        assert answer.text.startswith("Refused: task: ")
