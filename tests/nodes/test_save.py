"""One operation at the end: all of a run or nothing, each message once, and only the messages that are kept."""

import asyncio
from typing import Any, Literal

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConcurrentChangeError, ModelError, ModelOutputError
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    REFLECTIONS,
    contents,
    decisions,
    fact,
    facts,
    meanwhile,
    reflection,
    reflections,
    scripted_memory,
    together,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import expire_leases, identity

ANA = identity("ana", session="s1")
SAID = ("I keep bees.", "Good morning.", "assistant: Hello Ana.", "Well then.")
BEES = facts(fact("Ana keeps bees.", 1))
SHORT = reflections(user=[reflection("Ana wants short answers.", 4)])
#: Tables in which a formation leaves something.
WRITTEN = ("memories", "entries", "sources", "history", "history_contents")


def rows(superuser: psycopg.Connection, table: str) -> int:
    count = superuser.execute(f"select count(*) from mnemic.{table}").fetchone()
    assert count is not None
    return int(count[0])


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
    left = superuser.execute("select content from mnemic.messages where content is not null").fetchall()
    assert len(left) == (4 if days else len(kept))
    assert kept <= {content for (content,) in left}
    assert rows(superuser, "messages") == 4


async def test_a_kept_message_is_found_by_its_speaker_and_its_session_only(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await memory.configure_agent(ANA, keep_messages="all")
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    elsewhere = identity("ana", session="s2")
    assert next(item.content for item in await memory.query(elsewhere, "keep bees")) == "I keep bees."
    assert "Hello Ana." not in [item.content for item in await memory.query(elsewhere, "Hello Ana")]
    assert "Hello Ana." in [item.content for item in await memory.query(ANA, "Hello Ana")]
    assert await memory.query(identity("bo", session="s2"), "keep bees") == []


async def test_everything_of_a_run_is_one_operation(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, BEES)
    model.answer(REFLECTIONS, SHORT)
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)

    found = superuser.execute(
        "select count(*), count(distinct op_id), min(actor), min(reason), min(session_id) from mnemic.history"
    ).fetchone()
    assert found == (2, 1, "ana", "formation", "s1")
    settled = superuser.execute(
        "select count(*) from mnemic.messages where formed_by = (select min(op_id::text)::uuid from mnemic.history)"
    ).fetchone()
    assert settled == (4,)


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


async def test_messages_that_come_while_the_model_writes_wait_for_the_next_run(
    memory: Mnemic, model: LoopbackModel
) -> None:
    model.answer(FACTS, meanwhile(lambda: memory.observe(ANA, turns(*SAID, "Goats, too.")), BEES), facts())
    await memory.observe(ANA, turns(*SAID))
    run = await run_once(memory, ANA)

    assert (run["formed"], run["stored"]) == (4, {"fact": 1})
    assert [run["formed"] for run in await memory.form(ANA)] == [1]


@pytest.mark.parametrize(
    ("step", "answer", "error"),
    [
        (FACTS, 500, ModelError),
        (REFLECTIONS, "no JSON at all", ModelOutputError),
        pytest.param(FACTS, "no JSON at all", ModelOutputError, marks=pytest.mark.thorough),
        pytest.param(REFLECTIONS, 500, ModelError, marks=pytest.mark.thorough),
    ],
)
async def test_a_model_that_fails_leaves_everything_pending_and_nothing_written(
    clean_db: Clone, superuser: psycopg.Connection, step: str, answer: Any, error: type[ModelError]
) -> None:
    with LoopbackModel() as model:
        model.answer(FACTS, BEES)
        model.answer(REFLECTIONS, SHORT)
        model.answer(step, answer)
        async with scripted_memory(clean_db, model) as memory:
            await memory.observe(ANA, turns(*SAID))
            with pytest.raises(error) as caught:
                await memory.form(ANA)
            assert "bees" not in str(caught.value)
            assert {table: rows(superuser, table) for table in WRITTEN} == dict.fromkeys(WRITTEN, 0)

            model.answer(step, BEES if step == FACTS else SHORT)
            (run,) = await memory.form(ANA)
            assert (run["formed"], run["stored"]) == (4, {"fact": 1, "reflection": 1})


async def test_an_embedder_that_fails_leaves_everything_pending(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, BEES)
    model.answer_embeddings(500)
    await memory.observe(ANA, turns(*SAID))
    with pytest.raises(ModelError):
        await memory.form(ANA)
    assert {table: rows(superuser, table) for table in WRITTEN} == dict.fromkeys(WRITTEN, 0)

    model.answer_embeddings(None)
    assert [run["formed"] for run in await memory.form(ANA)] == [4]


async def run_once(memory: Mnemic, who: Any) -> dict[str, Any]:
    result: dict[str, Any] = await memory.graphs.formation.ainvoke({"force": True}, context=who)
    return result
