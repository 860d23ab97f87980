"""What a step or a turn cost is recorded where that can be, and is no reason to lose what was paid for."""

import logging
from typing import Any

import psycopg
import pytest
from langchain_core.tools import tool

from mnemic.models.tool_calls import run_turn
from mnemic.operations.run.graph import metered
from mnemic.operations.run.resources import Resources
from mnemic.prompts.refine import RefineInput
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError, RefusedError
from mnemic.state.kinds import Usage
from mnemic.state.refinement import Budget, Turn
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.scripted import (
    FACTS,
    contents,
    fact,
    facts,
    say,
    scripted_memory,
    scripted_model,
    scripted_resources,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
BEES = "Ana keeps bees."


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "mnemic"]


async def calls(memory: Mnemic) -> dict[str, int]:
    return {usage.step: usage.calls for usage in await memory.usage(ANA)}


async def test_an_answer_is_kept_though_its_price_cannot_be_written(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_memory(clean_db, model, lock_timeout_seconds=0.05) as memory:
        await say(memory, ANA, "Good morning.")
        before = await calls(memory)
        model.answer(FACTS, facts(fact(BEES)))
        with superuser.transaction():
            superuser.execute("select 1 from mnemic.token_usage for update")
            await say(memory, ANA, "I keep bees.")
        assert await contents(memory, ANA) == [BEES]
        assert await calls(memory) == before

    assert {record.levelno for record in caplog.records if record.name == "mnemic"} == {logging.WARNING}
    assert [text.partition(" are missing")[0] for text in warnings(caplog)] == [
        "the tokens of step extract_facts",
        "the tokens of step extract_reflections",
    ]
    assert "bees" not in caplog.text.lower()


async def test_the_models_own_error_is_what_the_caller_sees(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with scripted_memory(clean_db, model, lock_timeout_seconds=0.05) as memory:
        await say(memory, ANA, "Good morning.")
        model.answer(FACTS, "no JSON")
        await memory.observe(ANA, turns("I keep bees."))
        with superuser.transaction():
            superuser.execute("select 1 from mnemic.token_usage for update")
            with pytest.raises(ModelOutputError):
                await memory.form(ANA)


async def test_what_does_not_pass_by_itself_is_raised(fresh_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(fresh_db, model) as memory:
        await memory.observe(ANA, turns("I keep bees."))
        with fresh_db.as_superuser() as connection:
            connection.execute("revoke insert on mnemic.token_usage from mnemic_app")
        with pytest.raises(RefusedError):
            await memory.form(ANA)


INPUT = RefineInput(
    persona="", scope="user", owner="Ana", budget=Budget(9000, 5000, 0, 2000, 500), batch=1, batches=1, ledger=()
)


@tool
def complete_refinement(summary: str) -> str:
    """Ends the session."""
    raise AssertionError("the tools are shown to the model, and not called")


async def take(resources: Resources, **settings: Any) -> tuple[Turn, int]:
    models = resources.models.with_settings(resources.settings.model_copy(update=settings))
    turn, usage = await metered(resources, ANA, run_turn(INPUT, [complete_refinement], models))
    return turn, usage.input_tokens + usage.output_tokens


async def spent(resources: Resources) -> list[Usage]:
    return [row for row in await Mnemic(resources).usage(ANA) if row.step == "refine"]


async def test_the_tokens_of_a_turn_are_returned_and_recorded_for_the_agents_own_model(clean_db: Clone) -> None:
    with scripted_model() as model:
        model.answer(offering("complete_refinement"), calling(("complete_refinement", {"summary": "Shorter."})))
        async with scripted_resources(clean_db, model) as resources:
            await Mnemic(resources).observe(ANA, turns("Hello."))  # the agent is known from now on
            turn, tokens = await take(resources, agent_model="openai:own-voice")
            await take(resources, agent_model="openai:own-voice")
            rows = await spent(resources)

    assert [call.name for call in turn.calls] == ["complete_refinement"]
    assert tokens == 110
    assert [request["model"] for request in model.chat_requests] == ["own-voice"] * 2
    assert [(row.model, row.calls, row.input_tokens, row.output_tokens) for row in rows] == [
        ("openai:own-voice", 2, 200, 20)
    ]
