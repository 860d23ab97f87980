"""When a formation runs, what agents and scopes override of it, and its one operation: all of a run or nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.memory.formation.builder import most_important
from mnemic.memory.formation.saving import within_limit
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConcurrentChangeError, InvalidInputError
from mnemic.state.records import NewMemory, Supersession
from mnemic.state.results import ConsolidationResult
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    decisions,
    fact,
    facts,
    last_prompt,
    meanwhile,
    reflection,
    reflections,
    scripted_memory,
    together,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import MORNING, expire_leases, identity, memory

ANA = identity("ana", session="s1")
FOUR = ("One.", "Two.", "Three.", "Four.")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (["Well."] * 45, "messages"),
        (["assistant: " + "word " * 1000] * 4, "tokens"),
        (["word " * 400] * 3, None),
        (["assistant: " + "word " * 200] * 4, None),
    ],
)
async def test_enough_messages_or_words_are_formed(
    memory: Mnemic, model: LoopbackModel, said: Sequence[str], reason: str | None
) -> None:
    await memory.observe(ANA, turns(*said))
    run = await memory.graphs.formation.ainvoke({}, context=ANA)

    formed = len(said) if reason else 0
    assert (run["reason"], run["formed"], run["pending"]) == (reason, formed, len(said) - formed)
    assert bool(asked(model)) == bool(reason)


async def test_a_session_is_cold_after_ten_minutes(memory: Mnemic, superuser: psycopg.Connection) -> None:
    await memory.observe(ANA, turns(*FOUR))
    for minutes, reason in ((9, None), (10, "cold")):
        superuser.execute("update mnemic.sessions set last_activity_at = now() - make_interval(mins => %s)", (minutes,))
        assert (await memory.graphs.formation.ainvoke({}, context=ANA))["reason"] == reason

    assert (await memory.observe(ANA, turns(*FOUR, "One more thing."))).pending == 1
    superuser.execute("update mnemic.sessions set last_activity_at = now() - interval '10 minutes'")
    assert (await memory.graphs.formation.ainvoke({}, context=ANA))["formed"] == 1


@pytest.mark.parametrize(
    ("count", "length", "runs"), [(120, 1, [(50, 70), (50, 20), (20, 0)]), (6, 6000, [(2, 4), (2, 2), (2, 0)])]
)
async def test_long_backlog_is_formed_in_batches_of_fifty_that_fit_a_prompt(
    memory: Mnemic, model: LoopbackModel, count: int, length: int, runs: list[tuple[int, int]]
) -> None:
    await memory.observe(ANA, turns(*[f"Turn {place}. " + "page " * length for place in range(count)]))

    assert [(run.formed, run.pending) for run in await memory.form(ANA)] == runs
    first, last = model.chat_requests[0]["messages"][1]["content"], last_prompt(model, FACTS)
    assert "Turn 0." in first
    assert f"Turn {count - 1}." in last


@pytest.mark.parametrize(
    ("switch", "asks", "facts_stored", "reflections_stored"),
    [("rag", [REFLECTIONS], 0, 1), ("always_in_context", [FACTS], 1, 0)],
)
async def test_a_half_that_is_switched_off_is_not_formed(
    memory: Mnemic, model: LoopbackModel, switch: str, asks: list[str], facts_stored: int, reflections_stored: int
) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")], episode="Ana spoke of bees."))
    await memory.admin.configure_agent(ANA, **{switch: False})
    await memory.observe(ANA, turns("I keep bees."))
    await memory.form(ANA)

    assert asked(model) == asks
    assert len(await contents(memory, ANA)) == facts_stored
    assert len(await contents(memory, ANA, "reflection")) == reflections_stored


async def test_a_scopes_threshold_and_word_limit_beat_the_agents(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.admin.configure_agent(ANA, user_threshold=1, user_word_limit=33)
    await memory.admin.configure_scope(
        ANA, "user:ana", name="Ana Lind", threshold=1, word_limit=12, consolidation_guidance="Stress the manner."
    )
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers.")]))
    model.answer(CONSOLIDATION, consolidation("Ana Lind wants short answers."))
    await memory.observe(ANA, turns("Be short."))
    (run,) = await memory.form(ANA)

    (result,) = run.consolidations
    assert len(result.spent) == 1
    assert replace(result, spent=()) == ConsolidationResult(scope_key="user:ana", outcome="saved", absorbed=1)
    prompt = last_prompt(model, CONSOLIDATION)
    assert "At most 12 words." in prompt
    assert "Stress the manner." in prompt
    assert "Ana Lind" in prompt


async def test_a_formation_and_its_messages_need_a_session(memory: Mnemic) -> None:
    for act in (memory.form(identity("ana")), memory.observe(identity("ana"), turns(*FOUR))):
        with pytest.raises(InvalidInputError, match="session_id"):
            await act


SAID = ("I keep bees.", "Good morning.", "assistant: Hello Ana.", "Well then.")
BEES = facts(fact("Ana keeps bees.", 1))
SHORT = reflections(user=[reflection("Ana wants short answers.", 4)])


@pytest.mark.parametrize(
    ("keep", "days", "kept"),
    [
        ("sources", 0, {"I keep bees.", "Well then."}),
        ("sources", 7, {"I keep bees.", "Well then."}),
        ("all", 0, {"I keep bees.", "Good morning.", "Hello Ana.", "Well then."}),
        ("none", 0, set()),
        pytest.param("none", 7, set(), marks=pytest.mark.thorough),
    ],
)
async def test_only_the_messages_that_are_kept_are_found_and_keep_their_words(
    clean_db: Clone,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    keep: Literal["sources", "all", "none"],
    kept: set[str],
    days: int,
) -> None:
    model.answer(FACTS, BEES)
    model.answer(REFLECTIONS, SHORT)
    async with scripted_memory(clean_db, model, keep_messages=keep, forget_after_days=days) as memory:
        await memory.observe(ANA, turns(*SAID))
        await memory.form(ANA)

        for question in SAID:
            said = question.removeprefix("assistant: ")
            found = [item.content for item in await memory.query(ANA, said) if item.kind == "message"]
            assert (said in found) == (said in kept)
        # elsewhere its speaker alone finds it; the assistant's words are the session's
        elsewhere = [item.content for item in await memory.query(identity("ana", session="s2"), "Hello Ana, keep bees")]
        assert ("I keep bees." in elsewhere, "Hello Ana." in elsewhere) == ("I keep bees." in kept, False)
        assert await memory.query(identity("bo", session="s2"), "keep bees") == []
    left = superuser.execute("select content from mnemic.messages where content is not null").fetchall()
    assert len(left) == (4 if days else len(kept))
    assert kept <= {content for (content,) in left}
    assert superuser.execute("select count(*) from mnemic.messages").fetchone() == (4,)


async def test_a_formation_that_was_overtaken_writes_nothing(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    """A lease does not hold for ever; then the messages themselves decide."""

    async def overtake() -> None:
        expire_leases(superuser)
        model.answer(FACTS, facts(fact("Ana keeps bees.")))
        model.answer(REFLECTIONS, SHORT)
        assert (await run_once(memory, ANA))["stored"] == {"fact": 1, "reflection": 1}

    model.answer(FACTS, facts(fact("Forty hives belong to Ana.")))
    model.answer(REFLECTIONS, meanwhile(overtake, reflections(user=[reflection("No praise is welcome to Ana.")])))
    await memory.observe(ANA, turns(*SAID))
    with pytest.raises(ConcurrentChangeError):
        await run_once(memory, ANA)

    assert await contents(memory, ANA) == ["Ana keeps bees."]
    assert len(await contents(memory, ANA, "reflection")) == 1
    assert await memory.form(ANA) == []


async def test_two_formations_of_two_sessions_both_win(memory: Mnemic, model: LoopbackModel) -> None:
    """The same two answers: what the loser of the test above held was fit to be stored."""
    model.answer(FACTS, together(2, facts(fact("Ana keeps bees.")), facts(fact("Forty hives belong to Ana."))))
    model.answer(DECISIONS, decisions())  # the slower one may find the other's fact near its own
    sessions = [ANA, identity("ana", session="s2")]
    for who in sessions:
        await memory.observe(who, turns(*SAID))
    await asyncio.gather(*(run_once(memory, who) for who in sessions))

    assert await contents(memory, ANA) == ["Ana keeps bees.", "Forty hives belong to Ana."]


async def run_once(memory: Mnemic, who: Any) -> dict[str, Any]:
    result: dict[str, Any] = await memory.graphs.formation.ainvoke({"force": True}, context=who)
    return result


def rated(*importances: int) -> list[NewMemory]:
    return [replace(memory(f"m{place}"), importance=rating) for place, rating in enumerate(importances)]


def test_the_most_important_stay_in_their_order_and_among_equals_the_first() -> None:
    new = rated(2, 5, 3, 3, 4)

    assert most_important(new, 3) == [new[1], new[2], new[4]]
    assert most_important(new, 9) == new
    assert most_important(new, 0) == []


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), max_size=7), st.integers(0, 8) | st.none())
def test_the_cap_holds_and_no_closing_hangs_in_the_air(run: list[tuple[int, int]], most: int | None) -> None:
    new = rated(*(rating for rating, _ in run))
    closed = [(fact, count) for fact, (_, count) in zip(new, run, strict=True)]
    closing = [Supersession(uuid4(), 1, fact.id, MORNING) for fact, count in closed for _ in range(count)]
    kept, rows = within_limit(new, closing, most)
    ids = {memory.id for memory in kept}

    assert kept == (new if most is None else most_important(new, most))
    assert rows == [row for row in closing if row.new_id in ids]
