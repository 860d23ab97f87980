"""What a formation costs: requests, fixed prompt text, tokens, and no connection while a model answers."""

import json
from typing import Any

import pytest

from mnemic.operations.run.resources import Resources
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
    scripted_resources,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
OSLO = "Ana lives in Oslo with two cats."
BERGEN = "Ana lives in Bergen with two cats."
SAID = "I say what I say.", "assistant: So you do.", "Well then.", "Good."
#: Characters of one call that are not conversation: system text, slots' surroundings and schema.
MAX_FIXED_CHARS = 4000


async def test_without_a_pair_to_check_two_requests_and_two_embedding_batches(
    memory: Mnemic, model: LoopbackModel
) -> None:
    model.answer(FACTS, facts(fact(OSLO), fact("The blue ferry to Horten leaves at seven.", 2)))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")], episode="Ana spoke of Oslo."))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    assert asked(model) == [FACTS, REFLECTIONS]
    assert len(model.embedding_requests) == 2


async def test_a_pair_to_check_costs_one_more_request(memory: Mnemic, model: LoopbackModel) -> None:
    drafts = [fact(OSLO), fact(BERGEN, 2)]
    model.answer(FACTS, facts(*drafts))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=BERGEN)))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    assert asked(model) == [FACTS, DECISIONS, REFLECTIONS]
    assert len(model.embedding_requests) == 2


async def test_every_due_consolidation_costs_one_more(memory: Mnemic, model: LoopbackModel) -> None:
    for key in ("user:ana", "session:s1"):
        await memory.configure_scope(ANA, ScopeSettings(scope_key=key, threshold=1))
    model.answer(
        REFLECTIONS,
        reflections(user=[reflection("Ana wants short answers.")], session=[reflection("The sail plan is open.")]),
    )
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    await memory.observe(ANA, turns(*SAID))
    (run,) = await memory.form(ANA)

    assert asked(model) == [FACTS, REFLECTIONS, CONSOLIDATION, CONSOLIDATION]
    assert [result["outcome"] for result in run["consolidations"]] == ["saved", "saved"]


async def test_with_nothing_to_keep_no_embedding_is_asked_for(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    assert asked(model) == [FACTS, REFLECTIONS]
    assert model.embedding_requests == []


async def full_run(memory: Mnemic, model: LoopbackModel) -> None:
    """A formation that takes every step."""
    await memory.configure_scope(ANA, ScopeSettings(scope_key="user:ana", threshold=1))
    model.answer(FACTS, facts(fact(OSLO), fact(BERGEN, 2)))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=BERGEN)))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]))
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)


async def test_the_fixed_text_of_every_call_stays_small(memory: Mnemic, model: LoopbackModel) -> None:
    await full_run(memory, model)

    assert asked(model) == [FACTS, DECISIONS, REFLECTIONS, CONSOLIDATION]
    for request in model.chat_requests:
        assert len(request["messages"]) == 2
        text = "".join(message["content"] for message in request["messages"])
        for line in filter(None, text.splitlines()):
            if any(said.removeprefix("assistant: ") in line for said in (*SAID, OSLO, BERGEN)):
                text = text.replace(line, "")
        schema = json.dumps(request["response_format"]["json_schema"], separators=(",", ":"))
        assert len(text) + len(schema) <= MAX_FIXED_CHARS, request["response_format"]["json_schema"]["name"]


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


async def test_a_repair_is_counted_too(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, "no JSON", facts())
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    assert next(usage for usage in await memory.usage(ANA) if usage.step == "extract_facts").calls == 2


async def test_what_a_useless_model_cost_is_counted_as_well(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, "no JSON")
    await memory.observe(ANA, turns(*SAID))
    with pytest.raises(ModelOutputError):
        await memory.form(ANA)

    (used,) = await memory.usage(ANA)
    assert (used.step, used.calls, used.input_tokens) == ("extract_facts", 2, 200)


@pytest.mark.parametrize("size", [1, 3])
async def test_no_connection_is_held_while_a_model_or_the_embedder_answers(
    clean_db: Clone, model: LoopbackModel, size: int
) -> None:
    async with scripted_resources(clean_db, model, pool_size=size) as resources:
        held: list[tuple[str, int]] = []
        watch(model, resources, held)
        memory = Mnemic(resources)
        await full_run(memory, model)
        await memory.context(ANA, "Where did Ana live?", search="always")

    assert [what for what, _ in held] == [FACTS, "embeddings", DECISIONS, REFLECTIONS, "embeddings", CONSOLIDATION,
                                          "embeddings"]  # fmt: skip
    assert {count for _, count in held} == {0}


def watch(model: LoopbackModel, resources: Resources, held: list[tuple[str, int]]) -> None:
    """Notes, in the moment of each request, how many connections are in somebody's hands."""
    pool = resources.database._pool
    reply_to = model.reply_to

    def note(path: str, request: dict[str, Any]) -> tuple[int, str, bytes]:
        stats = pool.get_stats()
        embedding = path.endswith("/embeddings")
        what = "embeddings" if embedding else request["response_format"]["json_schema"]["name"]
        held.append((what, stats["pool_size"] - stats["pool_available"]))
        return reply_to(path, request)

    model.reply_to = note  # type: ignore[method-assign]  # the test's own server
