"""What a formation costs, and that the record of a price is no reason to lose what was paid for."""

import logging

import psycopg
import pytest

from mnemic.prompts.extraction import ExtractFactsOutput, ExtractReflectionsOutput
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError, RefusedError
from mnemic.state.records import ScopeSettings
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
OSLO = "Ana lives in Oslo with two cats."
BERGEN = "Ana lives in Bergen with two cats."
SAID = "I say what I say.", "assistant: So you do.", "Well then.", "Good."
FERRY = "The blue ferry to Horten leaves at seven."
SHORT = reflection("Ana wants short answers.")


@pytest.mark.parametrize(
    ("found", "drawn", "steps", "batches"),
    [
        (facts(), reflections(), [FACTS, REFLECTIONS], 0),
        (facts(fact(OSLO), fact(FERRY, 2)), reflections(user=[SHORT]), [FACTS, REFLECTIONS], 2),
        (facts(fact(OSLO), fact(BERGEN, 2)), reflections(), [FACTS, DECISIONS, REFLECTIONS], 2),
        (
            facts(),
            reflections(user=[SHORT], session=[reflection("The sail plan is open.")]),
            [FACTS, REFLECTIONS, CONSOLIDATION, CONSOLIDATION],
            1,
        ),
    ],
    ids=["nothing to keep", "no pair to check", "a pair to check", "two consolidations"],
)
async def test_each_step_that_is_needed_costs_one_request(
    memory: Mnemic,
    model: LoopbackModel,
    found: ExtractFactsOutput,
    drawn: ExtractReflectionsOutput,
    steps: list[str],
    batches: int,
) -> None:
    if CONSOLIDATION in steps:
        for key in ("user:ana", "session:s1"):
            await memory.configure_scope(ANA, ScopeSettings(scope_key=key, threshold=1))
    model.answer(FACTS, found)
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=BERGEN)))
    model.answer(REFLECTIONS, drawn)
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    assert asked(model) == steps
    assert len(model.embedding_requests) == batches


async def test_every_step_uses_the_model_of_its_tier_and_its_tokens_are_recorded(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await memory.configure_scope(ANA, ScopeSettings(scope_key="user:ana", threshold=1))
    model.answer(FACTS, facts(fact(OSLO), fact(BERGEN, 2)))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=BERGEN)))
    model.answer(REFLECTIONS, reflections(user=[SHORT]))
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    used = {(usage.step, usage.model): (usage.calls, usage.input_tokens, usage.output_tokens)
            for usage in await memory.usage(ANA)}  # fmt: skip
    assert used == {
        ("extract_facts", "openai:gpt-fast"): (1, 100, 10),
        ("decide", "openai:gpt-fast"): (1, 100, 10),
        ("extract_reflections", "openai:gpt-slow"): (1, 100, 10),
        ("write_consolidation", "openai:gpt-slow"): (1, 100, 10),
    }
    assert [request["model"] for request in model.chat_requests] == ["gpt-fast", "gpt-fast", "gpt-slow", "gpt-slow"]


async def test_what_a_useless_model_cost_is_counted_as_well(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, "no JSON")
    await memory.observe(ANA, turns(*SAID))
    with pytest.raises(ModelOutputError):
        await memory.form(ANA)

    (used,) = await memory.usage(ANA)
    assert (used.step, used.calls, used.input_tokens) == ("extract_facts", 2, 200)


async def calls(memory: Mnemic) -> dict[str, int]:
    return {usage.step: usage.calls for usage in await memory.usage(ANA)}


async def test_an_answer_is_kept_though_its_price_cannot_be_written(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_memory(clean_db, model, lock_timeout_seconds=0.05) as memory:
        await say(memory, ANA, "Good morning.")
        before = await calls(memory)
        model.answer(FACTS, facts(fact("Ana keeps bees.")))
        with superuser.transaction():
            superuser.execute("select 1 from mnemic.token_usage for update")
            await say(memory, ANA, "I keep bees.")
        assert await contents(memory, ANA) == ["Ana keeps bees."]
        assert await calls(memory) == before

    logged = [record for record in caplog.records if record.name == "mnemic"]
    assert [(record.levelno, record.getMessage().partition(" are missing")[0]) for record in logged] == [
        (logging.WARNING, f"the tokens of step {step}") for step in ("extract_facts", "extract_reflections")
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
