"""What a formation costs: requests, tokens, and no connection while a model answers."""

import pytest

from mnemic.prompts.extraction import ExtractFactsOutput, ExtractReflectionsOutput
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError
from mnemic.state.records import ScopeSettings
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    asked,
    consolidation,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    turns,
)
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


async def full_run(memory: Mnemic, model: LoopbackModel) -> None:
    """A formation that takes every step."""
    await memory.configure_scope(ANA, ScopeSettings(scope_key="user:ana", threshold=1))
    model.answer(FACTS, facts(fact(OSLO), fact(BERGEN, 2)))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=BERGEN)))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]))
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)


async def test_every_step_uses_the_model_of_its_tier_and_its_tokens_are_recorded(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await full_run(memory, model)

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
