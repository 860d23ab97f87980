"""Reflections and the episode: whose they are, and what the model is shown of whom."""

import pytest

from mnemic.prompts.extract_reflections import ReflectionDraft
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelOutputError
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    FACTS,
    REFLECTIONS,
    contents,
    fact,
    facts,
    last_prompt,
    reflection,
    reflections,
    say,
    turns,
)
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
BO = identity("bo", session="s2")
SHORT = "Ana wants short answers without praise."
LAUNCH = "The harbor launch on 9 May 2026 comes before all else."


async def test_each_level_goes_to_its_own_scope_key(memory: Mnemic, model: LoopbackModel) -> None:
    answer = reflections(
        agent=[reflection(LAUNCH)],
        group=[reflection("The crew decides by vote on Mondays.")],
        user=[reflection(SHORT, private=True)],
        session=[reflection("The sail plan is open until 4 March 2026.")],
    )
    model.answer(REFLECTIONS, answer)
    who = identity("ana", session="s1", groups=["crew"])
    await say(memory, who, "The harbor launch on 9 May comes first; the crew decides by vote on Mondays.")

    held = {item.scope_key: item.content for item in await memory.memories(who, ["reflection"])}
    assert held == {
        "agent:harbor": LAUNCH,
        "group:crew": "The crew decides by vote on Mondays.",
        "user:ana": SHORT,
        "session:s1": "The sail plan is open until 4 March 2026.",
    }


@pytest.mark.parametrize(
    "draft",
    [
        reflection(LAUNCH, private=True),
        reflection("Ana is recovering from surgery.", importance=5),
        reflection("Ana wants short answers.", category="tone"),
        reflection(LAUNCH, importance=1),
        reflection("The crew meets in Horten on Tuesdays."),
    ],
    ids=["private", "health", "tone", "unimportant", "nobody said it"],
)
async def test_nothing_personal_becomes_the_agents_or_the_groups(
    memory: Mnemic, model: LoopbackModel, draft: ReflectionDraft
) -> None:
    model.answer(REFLECTIONS, reflections(agent=[draft], group=[draft]))
    who = identity("ana", session="s1", groups=["crew"])
    await say(memory, who, "The harbor launch comes first, I want short answers after my surgery.", "assistant: I see.")

    assert {item.scope_key for item in await memory.memories(who, ["reflection"])} == {"user:ana"}
    assert await contents(memory, identity("bo", groups=["crew"]), "reflection") == []


async def test_each_speakers_reflection_is_their_own(memory: Mnemic, model: LoopbackModel) -> None:
    both = [reflection(SHORT, 1), reflection("Bo wants to see every figure.", 2)]
    model.answer(REFLECTIONS, reflections(user=both))
    await memory.observe(
        ANA, [*turns("Be short."), *turns("Show me every figure.", user="bo", minutes=1)], several_speakers=True
    )
    await memory.form(ANA)

    assert await contents(memory, ANA, "reflection") == [SHORT]
    assert await contents(memory, BO, "reflection") == ["Bo wants to see every figure."]


async def test_a_lower_level_does_not_repeat_what_a_wider_one_or_a_fact_says(
    memory: Mnemic, model: LoopbackModel
) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    repeated = [reflection(LAUNCH), reflection("Ana keeps bees.")]
    model.answer(REFLECTIONS, reflections(agent=[reflection(LAUNCH)], user=repeated, session=repeated))
    await say(memory, ANA, "The launch comes before all else, and I keep bees.")

    assert [item.scope_key for item in await memory.memories(ANA, ["reflection"])] == ["agent:harbor"]


async def test_what_stands_in_the_context_is_not_stored_again(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(REFLECTIONS, reflections(user=[reflection(SHORT)]))
    await say(memory, ANA, "Be short.")
    await say(memory, identity("ana", session="later"), "Be short, I said.")

    assert await contents(memory, ANA, "reflection") == [SHORT]
    assert SHORT in last_prompt(model, REFLECTIONS)


async def test_where_several_speak_nobodys_own_memory_is_shown(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(REFLECTIONS, reflections(user=[reflection(SHORT)], agent=[reflection(LAUNCH)]))
    await say(memory, ANA, "Be short. The launch comes before all else.")
    model.answer(REFLECTIONS, reflections())
    await memory.observe(ANA, [*turns("Hello all."), *turns("Hello Ana.", user="bo", minutes=1)], several_speakers=True)
    await memory.form(ANA)

    prompt = last_prompt(model, REFLECTIONS)
    assert LAUNCH in prompt
    assert SHORT not in prompt


async def test_the_new_facts_are_shown_so_that_they_are_not_said_twice(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    await say(memory, ANA, "I keep bees.")

    assert "- Ana keeps bees." in last_prompt(model, REFLECTIONS)


@pytest.mark.parametrize("draft", [reflection("I want short answers."), reflection(SHORT, 0), reflection(SHORT, 9)])
async def test_an_answer_of_unfounded_or_badly_written_reflections_is_useless(
    memory: Mnemic, model: LoopbackModel, draft: ReflectionDraft
) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    model.answer(REFLECTIONS, reflections(user=[draft]))
    await memory.observe(ANA, turns("Be short."))
    with pytest.raises(ModelOutputError, match="1 of 1 drafts"):
        await memory.form(ANA)

    assert await memory.memories(ANA) == []
    assert (await memory.observe(ANA, [])).pending == 1


async def test_an_episode_belongs_to_the_one_who_spoke(memory: Mnemic, model: LoopbackModel) -> None:
    told = "On 2 March 2026 Ana and the assistant chose a mast."
    model.answer(REFLECTIONS, reflections(episode=told))
    await say(memory, ANA, "Let us choose a mast.", "assistant: The light one.")

    (episode,) = await memory.memories(ANA, ["episode"])
    assert (episode.content, episode.scope_key) == (told, "user:ana")
    assert next(found.content for found in await memory.query(ANA, "mast")) == told


@pytest.mark.parametrize(
    ("groups", "private", "key"),
    [(["crew"], False, "group:crew"), (["crew"], True, "session:s1"), ([], False, "session:s1")],
)
async def test_an_episode_of_several_is_the_groups_or_the_sessions(
    memory: Mnemic, model: LoopbackModel, groups: list[str], private: bool, key: str
) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.", private=private)))
    model.answer(REFLECTIONS, reflections(episode="Ana and Bo chose a mast on 2 March 2026."))
    who = identity("ana", session="s1", groups=groups)
    await memory.observe(
        who, [*turns("Let us choose a mast."), *turns("The light one.", user="bo", minutes=1)], several_speakers=True
    )
    await memory.form(who)

    (episode,) = await memory.memories(who, ["episode"])
    assert episode.scope_key == key


async def test_a_badly_written_episode_is_refused(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(REFLECTIONS, reflections(user=[reflection(SHORT)], episode="We chose a mast."))
    await memory.observe(ANA, turns("Let us choose."))
    (run,) = await memory.form(ANA)

    assert run["refused"] == {"first_person": 1}
    assert await contents(memory, ANA, "episode") == []
