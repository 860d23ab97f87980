"""What a step cost is recorded where that can be, and is no reason to lose what was paid for."""

import logging

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError, RefusedError
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, contents, fact, facts, say, scripted_memory, turns
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
