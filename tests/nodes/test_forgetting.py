"""Words of messages go some days after they were formed, where a memory or the model's word accounts for them."""

from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
from pydantic import BaseModel

from mnemic.nodes.formation import save
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.graphs import FormationOutput
from mnemic.state.identity import Identity
from mnemic.storage import inbox
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    decisions,
    fact,
    facts,
    observation,
    observations,
    reflection,
    reflections,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
SAID = ("I keep bees.", "Good morning.", "assistant: Hello Ana.", "I moved to Ghent.")
ALL = {"I keep bees.", "Good morning.", "Hello Ana.", "I moved to Ghent."}
BEES = fact("Ana keeps bees.", 1)


@pytest.fixture
async def strict(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Mnemic]:
    """A service that keeps no message for its own sake."""
    async with scripted_memory(clean_db, model, keep_messages="none") as memory:
        yield memory


def words(superuser: psycopg.Connection) -> set[str]:
    found = superuser.execute("select content from mnemic.messages where content is not null").fetchall()
    return {content for (content,) in found}


def let_days_pass(superuser: psycopg.Connection) -> None:
    superuser.execute("update mnemic.messages set forget_at = forget_at - interval '8 days'")


async def form(memory: Mnemic, who: Identity = ANA, *said: str) -> FormationOutput:
    await memory.observe(who, turns(*(said or SAID)))
    (run,) = await memory.form(who)
    return run


async def test_the_days_pass_and_whoever_saves_next_takes_the_words(
    strict: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, facts(BEES))
    assert (await form(strict))["unaccounted"] == 0
    await form(strict, identity("ana", session="s2"), "Hello again.")
    assert words(superuser) == {*ALL, "Hello again."}

    let_days_pass(superuser)
    await form(strict, identity("bo", session="s3"), "I am Bo.")
    assert words(superuser) == {*ALL, "Hello again.", "I am Bo."}

    await form(strict, ANA, "One more thing.")
    assert words(superuser) == {"I am Bo.", "One more thing."}


async def test_an_administrator_takes_them_in_bounded_steps(
    strict: Mnemic, clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.operations.governance.retention.FORGOTTEN_AT_ONCE", 3)
    await form(strict)
    async with Administration.open(admin_url=clean_db.administrator_dsn) as office:
        assert await office.forget_messages(ANA.agent_id) == 0
        assert words(superuser) == ALL
        let_days_pass(superuser)
        assert await office.forget_messages("museum") == 0
        assert await office.forget_messages(ANA.agent_id) == 4
    assert words(superuser) == set()


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (facts(BEES, nothing_else=False), reflections(), {"Good morning.", "Hello Ana.", "I moved to Ghent."}),
        (facts(BEES), reflections(episode="Ana greeted the assistant.", nothing_else=False), ALL - {"I keep bees."}),
        # what a refused draft rests on holds something
        (facts(BEES, fact("I moved to Ghent.", 4)), reflections(), {"I moved to Ghent."}),
        # and so does what had to give way to something more important
        (facts(*[fact(f"Ana keeps {n} bees.", n, importance=n) for n in (2, 3, 4)]), reflections(), {"Good morning."}),
        (facts(), reflections(user=[reflection("Ana lives in Ghent.", 4)], nothing_else=False), ALL - {SAID[3]}),
    ],
)
async def test_what_nothing_accounts_for_keeps_its_words(
    clean_db: Clone,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    first: BaseModel,
    second: BaseModel,
    kept: set[str],
) -> None:
    model.answer(FACTS, first)
    model.answer(REFLECTIONS, second)
    model.answer(DECISIONS, decisions())
    async with scripted_memory(clean_db, model, keep_messages="none", forget_after_days=0) as memory:
        assert (await form(memory))["unaccounted"] == len(kept)
    assert words(superuser) == kept


async def test_in_a_single_call_too(clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection) -> None:
    model.answer(OBSERVATIONS, observations(observation("Ana keeps bees.", 1), nothing_else=False))
    async with scripted_memory(
        clean_db, model, keep_messages="none", extraction="single", forget_after_days=0
    ) as memory:
        assert (await form(memory))["unaccounted"] == 3
    assert words(superuser) == ALL - {"I keep bees."}


async def test_what_no_step_was_asked_about_is_kept(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    off = {"rag": False, "always_in_context": False}
    async with scripted_memory(clean_db, model, forget_after_days=0, **off) as memory:
        assert (await form(memory))["unaccounted"] == 4
    assert words(superuser) == ALL


async def test_a_message_that_waits_is_shown_nowhere(
    strict: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, facts(BEES, nothing_else=False))
    await form(strict)

    await check_shown_nowhere(strict)


async def check_shown_nowhere(memory: Mnemic) -> None:
    for said in SAID:
        question = said.removeprefix("assistant: ")
        found = [item.content for item in await memory.query(ANA, question)]
        assert set(found) <= {"Ana keeps bees."}
        context = (await memory.recall(ANA, question, search="always"))["context"]
        assert not any(text in context for text in ALL)


@pytest.mark.thorough
async def test_control_a_waiting_message_that_was_indexed_is_found_out(
    strict: Mnemic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "_kept", lambda batch, *_: batch)
    await form(strict)
    with pytest.raises(AssertionError):
        await check_shown_nowhere(strict)


async def test_an_erasure_takes_what_waits_with_the_memory(
    strict: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    """The assistant's answer may repeat it."""
    model.answer(FACTS, facts(BEES))
    await form(strict)
    model.answer(FACTS, facts())
    await form(strict, identity("ana", session="s2"), "Hello again.")
    (bees,) = await strict.memories(ANA, ["fact"])
    await strict.erase(ANA, bees.id)

    assert words(superuser) == {"Hello again."}


async def test_an_erased_person_leaves_no_words_that_wait(
    strict: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, facts(BEES, nothing_else=False))
    await form(strict)
    await strict.erase_person(ANA)

    assert words(superuser) == set()


@pytest.mark.thorough
@pytest.mark.parametrize("statement", ["forget_due", "forget_later"])
async def test_control_a_service_that_does_not_wait_is_found_out(
    strict: Mnemic,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
) -> None:
    changes: dict[str, Callable[[str], str]] = {
        "forget_due": lambda sql: sql.replace("forget_at <= clock_timestamp()", "formed_by is not null"),
        "forget_later": lambda sql: sql.replace("clock_timestamp() + %(after)s", "clock_timestamp()"),
    }
    careless = changes[statement](inbox._SQL[statement])
    assert careless != inbox._SQL[statement]
    monkeypatch.setattr(inbox, "_SQL", {**inbox._SQL, statement: careless})
    with pytest.raises(AssertionError):
        await test_the_days_pass_and_whoever_saves_next_takes_the_words(strict, model, superuser)
