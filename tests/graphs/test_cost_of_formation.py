"""What a formation costs, and that the record of a price is no reason to lose what was paid for."""

import logging

import psycopg
import pytest

from mnemic.prompts.formation.extraction import ExtractFactsOutput, ExtractReflectionsOutput
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError, RefusedError
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
    ("known", "found", "drawn", "steps", "batches"),
    [
        (True, facts(), reflections(), [FACTS, REFLECTIONS], 0),
        (False, facts(fact(OSLO), fact(FERRY, 2)), reflections(user=[SHORT]), [FACTS, REFLECTIONS], 2),
        (True, facts(fact(FERRY), fact(BERGEN, 2)), reflections(), [FACTS, DECISIONS, REFLECTIONS], 2),
    ],
    ids=["nothing to keep", "nothing to change", "a fact that may change"],
)
async def test_each_step_that_is_needed_costs_one_request(
    memory: Mnemic,
    model: LoopbackModel,
    known: bool,
    found: ExtractFactsOutput,
    drawn: ExtractReflectionsOutput,
    steps: list[str],
    batches: int,
) -> None:
    if known:
        await memory.remember(ANA, OSLO, category="projects")
    before = len(model.embedding_requests)
    model.answer(FACTS, found)
    model.answer(DECISIONS, decisions(decision(2, "DELETE", 1, text=BERGEN)))
    model.answer(REFLECTIONS, drawn)
    await say(memory, ANA, *SAID)

    assert asked(model) == steps
    assert len(model.embedding_requests) - before == batches


async def test_every_step_uses_the_model_of_its_tier_and_its_tokens_are_recorded(
    memory: Mnemic, model: LoopbackModel
) -> None:
    for key in ("user:ana", "session:s1"):
        await memory.admin.configure_scope(ANA, key, threshold=1)
    await memory.remember(ANA, OSLO, category="projects")
    model.answer(FACTS, facts(fact(BERGEN)))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=BERGEN)))
    model.answer(REFLECTIONS, reflections(user=[SHORT], session=[reflection("The sail plan is open.")]))
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    await say(memory, ANA, *SAID)

    used = {(usage.step, usage.model): (usage.calls, usage.input_tokens, usage.output_tokens)
            for usage in await memory.usage.tokens(ANA)}  # fmt: skip
    assert used == {
        ("extract_facts", "openai:gpt-fast"): (1, 100, 10),
        ("decide", "openai:gpt-fast"): (1, 100, 10),
        ("extract_reflections", "openai:gpt-slow"): (1, 100, 10),
        ("write_consolidation", "openai:gpt-slow"): (2, 200, 20),
    }
    assert [request["model"] for request in model.chat_requests] == [*["gpt-fast"] * 2, *["gpt-slow"] * 3]


async def test_what_a_useless_model_cost_is_counted_as_well(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, "no JSON")
    with pytest.raises(ModelOutputError):
        await say(memory, ANA, *SAID)

    (used,) = await memory.usage.tokens(ANA)
    assert (used.step, used.calls, used.input_tokens) == ("extract_facts", 2, 200)


async def test_an_answer_is_kept_though_its_price_cannot_be_written(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_memory(clean_db, model, lock_timeout_seconds=0.05) as memory:
        await say(memory, ANA, "Good morning.")
        before = await memory.usage.tokens(ANA)
        model.answer(FACTS, facts(fact("Ana keeps bees.")))
        with superuser.transaction():
            superuser.execute("select 1 from mnemic.token_usage for update")
            await say(memory, ANA, "I keep bees.")
            model.answer(FACTS, "no JSON")
            with pytest.raises(ModelOutputError):  # the model's own error is what the caller sees
                await say(memory, ANA, "I keep goats.")
        assert await contents(memory, ANA) == ["Ana keeps bees."]
        assert await memory.usage.tokens(ANA) == before

    logged = [record for record in caplog.records if record.name == "mnemic"]
    assert {record.levelno for record in logged} == {logging.WARNING}
    steps = ["extract_facts", "extract_reflections", "extract_facts"]
    for record, step in zip(logged, steps, strict=True):
        assert step in record.getMessage()
    assert "bees" not in caplog.text.lower()


async def test_what_does_not_pass_by_itself_is_raised(fresh_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(fresh_db, model) as memory:
        with fresh_db.as_superuser() as connection:
            connection.execute("revoke insert on mnemic.token_usage from mnemic_app")
        with pytest.raises(RefusedError):
            await say(memory, ANA, "I keep bees.")
