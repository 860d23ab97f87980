"""Extraction in a single call: one request, reflections alone, and no more trust in the model than elsewhere."""

import json
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any

import pytest

from mnemic.prompts.extract_observations import ObservationDraft
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConfigurationError, ModelOutputError
from mnemic.state.identity import Identity
from mnemic.state.records import ScopeSettings
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    OBSERVATIONS,
    asked,
    consolidation,
    contents,
    fact,
    facts,
    last_prompt,
    observation,
    observations,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
TEAM = identity("ana", session="s1", groups=["crew"])
BO = identity("bo", session="s2")
LAUNCH = "The harbor launch on 9 May 2026 comes before all else."
SHORT = "Ana wants short answers without praise."
BEES = "Ana keeps bees."
FIFTY = (
    "Ana keeps seven hives of bees behind the harbor office in Porto, sells the honey on Saturdays at the market near"
    " the river bridge, lends two of the hives to a school in spring, and plans to build four or more of them with some"
    " neighbours before 1 June 2026."
)
MAX_FIXED_CHARS = 4000


@pytest.fixture
async def single(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Mnemic]:
    """The service, extracting in a single call."""
    async with scripted_memory(clean_db, model, extraction="single") as memory:
        yield memory


async def test_one_request_forms_reflections_and_nothing_else(single: Mnemic, model: LoopbackModel) -> None:
    model.answer(OBSERVATIONS, observations(observation(BEES), observation(SHORT, 2, category="style")))
    await single.observe(ANA, turns("I keep bees.", "Be short.", "assistant: Well.", "Good."))
    (run,) = await single.form(ANA)

    assert asked(model) == [OBSERVATIONS]
    assert (model.chat_requests[0]["model"], len(model.embedding_requests)) == ("gpt-fast", 1)
    assert (run["formed"], run["stored"]) == (4, {"reflection": 2})
    assert {(item.kind, item.content) for item in await single.memories(ANA)} == {
        ("reflection", BEES),
        ("reflection", SHORT),
    }
    assert [usage.step for usage in await single.usage(ANA)] == ["extract_observations"]


async def test_every_due_consolidation_costs_one_request_more(single: Mnemic, model: LoopbackModel) -> None:
    await single.configure_scope(ANA, ScopeSettings(scope_key="user:ana", threshold=1))
    model.answer(OBSERVATIONS, observations(observation(BEES)))
    model.answer(CONSOLIDATION, consolidation(BEES))
    await say(single, ANA, "I keep bees.")

    assert asked(model) == [OBSERVATIONS, CONSOLIDATION]
    assert await contents(single, ANA, "consolidation") == [BEES]
    assert await contents(single, ANA, "reflection") == []


async def test_the_fixed_text_of_the_call_stays_small(single: Mnemic, model: LoopbackModel) -> None:
    await say(single, ANA, "I keep bees.")

    (request,) = model.chat_requests
    text = "".join(message["content"] for message in request["messages"])
    schema = json.dumps(request["response_format"]["json_schema"], separators=(",", ":"))
    assert "I keep bees." in text
    assert len(text) + len(schema) <= MAX_FIXED_CHARS


async def test_each_observation_goes_to_its_own_scope_key(single: Mnemic, model: LoopbackModel) -> None:
    vote = "The crew decides by vote on Mondays."
    drafts = [
        observation(SHORT, category="style"),
        observation(vote, scope="group"),
        observation(LAUNCH, scope="agent"),
    ]
    model.answer(OBSERVATIONS, observations(*drafts))
    said = "The harbor launch on 9 May comes first; the crew decides by vote on Mondays. Be short."
    await say(single, TEAM, said, *["Well."] * 5)

    held = {item.scope_key: item.content for item in await single.memories(TEAM, ["reflection"])}
    assert held == {"agent:harbor": LAUNCH, "group:crew": vote, "user:ana": SHORT}


@pytest.mark.parametrize("scope", ["agent", "group"])
@pytest.mark.parametrize(
    "draft",
    [
        observation(LAUNCH, private=True),
        observation("Ana is recovering from surgery.", importance=5),
        observation("Ana wants short answers.", category="tone"),
        observation(LAUNCH, importance=1),
        observation("The crew meets in Horten on Tuesdays."),
        observation(LAUNCH, 2),
        observation(LAUNCH, 1, 2),
    ],
    ids=["private", "health", "tone", "unimportant", "nobody said it", "a pasted page", "partly pasted"],
)
async def test_nothing_personal_or_unfounded_becomes_everybodys(
    single: Mnemic, model: LoopbackModel, draft: ObservationDraft, scope: str
) -> None:
    own = observation("Ana has had surgery.")
    model.answer(OBSERVATIONS, observations(draft.model_copy(update={"scope": scope}), own))
    page = "-------- Forwarded message\nThe harbor launch on 9 May 2026 comes before all else."
    await say(single, TEAM, "The harbor launch comes first, I want short answers after my surgery.", page)

    assert {item.scope_key for item in await single.memories(TEAM, ["reflection"])} <= {"user:ana"}
    assert await contents(single, identity("bo", groups=["crew"]), "reflection") == []


@pytest.mark.parametrize(
    "draft",
    [
        observation(BEES, 0),
        observation(BEES, 9, -1, 2**40),
        observation("I keep bees."),
        observation("She keeps bees."),
        observation("bees " * 40),
        observation(FIFTY.replace("some", "some very")),
        observation("Ana keeps bees in " + "x" * 490),
        observation(" \x00 "),
        observation(BEES, 2),
        observation(BEES, 3),
    ],
    ids=["line 0", "foreign lines", "first person", "pronoun", "degenerate", "51 words", "501 characters", "empty",
         "the assistant's", "a tool's"],
)  # fmt: skip
async def test_an_answer_of_unusable_observations_is_useless(
    single: Mnemic, model: LoopbackModel, draft: ObservationDraft
) -> None:
    model.answer(OBSERVATIONS, observations(draft))
    tool = {"role": "tool", "content": "Ana keeps bees."}
    await single.observe(ANA, [*turns("Well.", "assistant: You keep bees."), tool])
    with pytest.raises(ModelOutputError, match="1 of 1 drafts"):
        await single.form(ANA)

    assert await single.memories(ANA) == []
    assert (await single.observe(ANA, [])).pending == 3


async def test_fifty_words_are_enough_and_accepted(single: Mnemic, model: LoopbackModel) -> None:
    model.answer(OBSERVATIONS, observations(observation(FIFTY)))
    await say(single, ANA, "I keep bees.")

    assert len(FIFTY.split()) == 50
    assert await contents(single, ANA, "reflection") == [FIFTY]


async def test_a_text_said_twice_or_in_context_already_is_stored_once(single: Mnemic, model: LoopbackModel) -> None:
    model.answer(OBSERVATIONS, observations(observation(BEES), observation(BEES), observation(BEES, scope="agent")))
    await say(single, ANA, "I keep bees.")
    await say(single, identity("ana", session="later"), "I keep bees, I said.")

    assert await contents(single, ANA, "reflection") == [BEES]
    assert BEES in last_prompt(model, OBSERVATIONS)


async def test_of_too_many_observations_the_most_important_are_kept(single: Mnemic, model: LoopbackModel) -> None:
    drafts = [
        observation(f"Ana keeps hive number {place} at the quay.", importance=place % 5 + 1) for place in range(30)
    ]
    model.answer(OBSERVATIONS, observations(*drafts))
    await single.observe(ANA, turns("One.", "Two.", "Three.", "Four."))
    (run,) = await single.form(ANA)

    assert "At most 2 observations" in last_prompt(model, OBSERVATIONS)
    assert run["stored"] == {"reflection": 2}
    assert {item.importance for item in await single.memories(ANA)} == {5}


async def test_each_speakers_observation_is_their_own_and_nobodys_own_memory_is_shown(
    single: Mnemic, model: LoopbackModel
) -> None:
    model.answer(OBSERVATIONS, observations(observation(SHORT, private=True)), observations())
    await say(single, identity("ana", session="s0"), "Be short.")
    bo_counts = "Bo wants to see every figure."
    model.answer(OBSERVATIONS, observations(observation(BEES), observation(bo_counts, 2)))
    said = ("Show me every figure.", "Please.", "assistant: Yes.")
    await single.observe(ANA, [*turns("I keep bees."), *turns(*said, user="bo", minutes=1)], several_speakers=True)
    await single.form(ANA)

    assert SHORT not in last_prompt(model, OBSERVATIONS)
    assert await contents(single, BO, "reflection") == [bo_counts]
    assert await contents(single, ANA, "reflection") == [BEES, SHORT]


async def test_group_and_guidance_are_shown(single: Mnemic, model: LoopbackModel) -> None:
    await single.configure_scope(TEAM, ScopeSettings(scope_key="group:crew", extraction_guidance="Note every vote."))
    await say(single, TEAM, "We vote on Mondays.")

    prompt = last_prompt(model, OBSERVATIONS)
    assert "<group>\ncrew\n</group>" in prompt.lower()
    assert "Note every vote." in prompt


async def test_one_agent_may_extract_in_a_single_call(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(OBSERVATIONS, observations(observation(BEES)))
    model.answer("ExtractFactsOutput", facts(fact(BEES)))
    model.answer("ExtractReflectionsOutput", reflections(user=[reflection(SHORT)]))
    lighthouse = identity("ana", agent="lighthouse", session="s1")
    await memory.configure_agent(ANA, extraction="single")
    for who in (ANA, lighthouse):
        await say(memory, who, "I keep bees. Be short.")

    assert asked(model) == [OBSERVATIONS, "ExtractFactsOutput", "ExtractReflectionsOutput"]
    assert [item.kind for item in await memory.memories(ANA)] == ["reflection"]
    assert {item.kind for item in await memory.memories(lighthouse)} == {"fact", "reflection"}


async def test_a_single_call_and_no_reflections_do_not_fit(memory: Mnemic, clean_db: Clone) -> None:
    with pytest.raises(ConfigurationError, match="needs always_in_context"):
        async with Mnemic.open(database_url=clean_db.service_dsn, extraction="single", always_in_context=False):
            pytest.fail("opened all the same")
    with pytest.raises(ConfigurationError, match="needs always_in_context"):
        await memory.configure_agent(ANA, extraction="single", always_in_context=False)


async def test_an_unusable_answer_leaves_everything_pending_and_resent_messages_are_formed_once(
    single: Mnemic, model: LoopbackModel
) -> None:
    model.answer(OBSERVATIONS, "no JSON")
    said = turns("I keep bees.", "assistant: How nice.")
    await single.observe(ANA, said)
    with pytest.raises(ModelOutputError):
        await single.form(ANA)
    assert await single.memories(ANA) == []

    model.answer(OBSERVATIONS, observations(observation(BEES)))
    assert (await single.observe(ANA, said)).accepted == 0
    assert [run["formed"] for run in await single.form(ANA)] == [2]
    assert (await single.observe(ANA, said)).pending == 0
    assert await single.form(ANA) == []
    assert await contents(single, ANA, "reflection") == [BEES]


async def test_an_example_conversation_becomes_reflections_without_a_model(clean_db: Clone) -> None:
    rows = example("15-ines-plainly.jsonl")
    who = Identity(agent_id="harbor", user_id="ines", session_id=rows[0]["session"])
    async with Mnemic.open(
        database_url=clean_db.service_dsn, extraction="single", user_threshold=100, keep_messages="none"
    ) as memory:
        await memory.observe(who, rows)
        runs = await memory.form(who)
        stored = await memory.memories(who)
        context = await memory.recall_text(identity("ines"), "Hello.")

    assert sum(run["formed"] for run in runs) == len(rows)
    assert {(item.kind, item.scope_key) for item in stored} == {("reflection", "user:ines")}
    assert len(stored) >= 3
    assert all(item.content in context for item in stored)


def example(name: str) -> list[dict[str, Any]]:
    text = resources.files("mnemic.examples").joinpath("conversations", name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]
