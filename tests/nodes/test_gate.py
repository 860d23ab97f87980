"""When a formation runs, and what agents and scopes override of it."""

from collections.abc import Sequence

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConfigurationError, InvalidInputError
from mnemic.state.records import ScopeSettings
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    fact,
    facts,
    last_prompt,
    reflection,
    reflections,
    turns,
)
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
FOUR = ("One.", "Two.", "Three.", "Four.")


@pytest.mark.parametrize("said", [["One."], FOUR[:3], FOUR, ["word " * 400] * 3])
async def test_below_the_triggers_nothing_is_asked_and_all_stays_pending(
    memory: Mnemic, model: LoopbackModel, said: Sequence[str]
) -> None:
    await memory.observe(ANA, turns(*said))
    run = await memory.graphs.formation.ainvoke({}, context=ANA)

    assert (run["reason"], run["formed"], run["pending"]) == (None, 0, len(said))
    assert asked(model) == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (["Well."] * 45, "messages"),
        (["word " * 200] * 4, "tokens"),
        (["assistant: " + "word " * 1000] * 4, "tokens"),
    ],
)
async def test_enough_messages_or_words_are_formed(
    memory: Mnemic, model: LoopbackModel, said: Sequence[str], reason: str
) -> None:
    await memory.observe(ANA, turns(*said))
    (run,) = await memory.form(ANA, force=False)

    assert (run["reason"], run["formed"], run["pending"]) == (reason, len(said), 0)


async def test_an_assistants_words_weigh_a_fifth(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.observe(ANA, turns(*["assistant: " + "word " * 200] * 4))

    assert await memory.form(ANA, force=False) == []


@pytest.mark.parametrize(("minutes", "messages", "reason"), [(10, 4, "cold"), (9, 4, None), (10, 3, None)])
async def test_a_session_is_cold_after_ten_minutes(
    memory: Mnemic, superuser: psycopg.Connection, minutes: int, messages: int, reason: str | None
) -> None:
    await memory.observe(ANA, turns(*FOUR[:messages]))
    superuser.execute("update mnemic.sessions set last_activity_at = now() - make_interval(mins => %s)", (minutes,))
    run = await memory.graphs.formation.ainvoke({}, context=ANA)

    assert run["reason"] == reason


async def test_one_message_is_enough_for_who_insists_and_none_is_too_few(memory: Mnemic) -> None:
    await memory.observe(ANA, turns("One."))

    assert [run["reason"] for run in await memory.form(ANA)] == ["forced"]
    assert await memory.form(ANA) == []


async def test_a_long_backlog_is_formed_in_batches_of_fifty(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.observe(ANA, turns(*[f"Turn {place}." for place in range(120)]))
    runs = await memory.form(ANA)

    assert [(run["formed"], run["pending"]) for run in runs] == [(50, 70), (50, 20), (20, 0)]
    first, last = model.chat_requests[0]["messages"][1]["content"], last_prompt(model, FACTS)
    assert "Turn 0." in first
    assert "Turn 119." in last


async def test_an_agents_own_triggers_are_its_own(memory: Mnemic) -> None:
    await memory.configure_agent(ANA, formation_min_messages=1, formation_messages=2)
    other = identity("ana", agent="lighthouse", session="s1")
    for who in (ANA, other):
        await memory.observe(who, turns("One.", "Two."))

    assert [run["reason"] for run in await memory.form(ANA, force=False)] == ["messages"]
    assert await memory.form(other, force=False) == []


@pytest.mark.parametrize("overrides", [{"pool_size": 3}, {"formation_messages": 0}, {"user_threshold": "many"}])
async def test_what_an_agent_cannot_set_is_refused_and_the_old_stays(
    memory: Mnemic, overrides: dict[str, object]
) -> None:
    await memory.configure_agent(ANA, formation_min_messages=1, formation_messages=1)
    with pytest.raises(ConfigurationError):
        await memory.configure_agent(ANA, **overrides)
    await memory.observe(ANA, turns("One."))

    assert [run["reason"] for run in await memory.form(ANA, force=False)] == ["messages"]


@pytest.mark.parametrize(
    ("switch", "asks", "facts_stored", "reflections_stored"),
    [("rag", [REFLECTIONS], 0, 1), ("always_in_context", [FACTS], 1, 0)],
)
async def test_a_half_that_is_switched_off_is_not_formed(
    memory: Mnemic, model: LoopbackModel, switch: str, asks: list[str], facts_stored: int, reflections_stored: int
) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")], episode="Ana spoke of bees."))
    await memory.configure_agent(ANA, **{switch: False})
    await memory.observe(ANA, turns("I keep bees."))
    await memory.form(ANA)

    assert asked(model) == asks
    assert len(await contents(memory, ANA)) == facts_stored
    assert len(await contents(memory, ANA, "reflection")) == reflections_stored


async def test_a_scopes_threshold_and_word_limit_beat_the_settings(memory: Mnemic, model: LoopbackModel) -> None:
    own = ScopeSettings(
        scope_key="user:ana", name="Ana Lind", threshold=1, word_limit=12, consolidation_guidance="Stress the manner."
    )
    await memory.configure_scope(ANA, own)
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]))
    model.answer(CONSOLIDATION, consolidation("Ana Lind wants short answers."))
    await memory.observe(ANA, turns("Be short."))
    (run,) = await memory.form(ANA)

    assert run["consolidations"] == [
        {"scope_key": "user:ana", "outcome": "saved", "absorbed": 1, "kept_share": 1.0, "problem": None},
    ]
    prompt = last_prompt(model, CONSOLIDATION)
    assert "At most 12 words." in prompt
    assert "Stress the manner." in prompt
    assert "Ana Lind" in prompt


async def test_an_inactive_scope_is_not_consolidated(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.configure_scope(ANA, ScopeSettings(scope_key="user:ana", threshold=1, is_active=False))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]))
    await memory.observe(ANA, turns("Be short."))
    (run,) = await memory.form(ANA)

    assert run["consolidations"] == []
    assert await contents(memory, ANA, "reflection") == ["Ana wants short answers."]


async def test_an_agents_threshold_and_word_limit_count_for_its_scopes(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.configure_agent(ANA, user_threshold=1, user_word_limit=33)
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]))
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    await memory.observe(ANA, turns("Be short."))
    await memory.form(ANA)

    assert "At most 33 words." in last_prompt(model, CONSOLIDATION)


async def test_a_formation_needs_a_session(memory: Mnemic) -> None:
    with pytest.raises(InvalidInputError, match="session_id"):
        await memory.form(identity("ana"))
