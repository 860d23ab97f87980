"""A message that says again what is known is a source of it; words go some days after they were formed."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from mnemic.memory.formation import saving
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.results import FormationResult
from mnemic.storage import inbox
from tests.support.erasing import places
from tests.support.loopback import LoopbackModel
from tests.support.mutating import mutate, worsen
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    contents,
    decision,
    decisions,
    fact,
    facts,
    observation,
    observations,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity, text_of

ANA = identity("ana", session="s1")
LATER = identity("ana", session="s2")
QUOKKA = "Ana keeps a quokka."
ALIKE = "Ana keeps a small quokka at home."


async def say_twice(memory: Mnemic, model: LoopbackModel, again: str) -> None:
    """In two sessions; the second time it is known."""
    for who, text, answer in ((ANA, QUOKKA, "I keep a quokka"), (LATER, again, "As I said, a quokka")):
        model.answer(FACTS, facts(fact(text, 1)))
        model.answer(DECISIONS, decisions(decision(1, "NONE", 1)))
        await say(memory, who, answer, "Well")
    assert await contents(memory, ANA) == [QUOKKA]


async def erase_the_only(memory: Mnemic, kind: Kind = "fact") -> None:
    (kept,) = await memory.memories(ANA, [kind])
    await memory.privacy.erase(ANA, kept.id)


@pytest.mark.parametrize(
    ("again", "tied"),
    [(QUOKKA, True), (ALIKE, True), (QUOKKA, False)],
    ids=["word for word", "as the model decides", "control"],
)
async def test_an_erasure_takes_what_was_said_twice_in_two_sessions(
    memory: Mnemic,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    again: str,
    tied: bool,
) -> None:
    """In the control nothing ties the second message to the memory."""
    if not tied:
        monkeypatch.setattr(saving, "further_sources", lambda *_: [])
    await memory.admin.configure_agent(ANA, keep_messages="all")
    await say_twice(memory, model, again)
    found = [item.content for item in await memory.query(ANA, "quokka")]
    assert {"I keep a quokka", "As I said, a quokka"} <= {*found}
    await erase_the_only(memory)
    left = {item.content for item in await memory.query(ANA, "quokka")}
    assert left - {"Well"} == (set() if tied else {"As I said, a quokka"})
    assert places(superuser) == (set() if tied else {"messages", "entries"})


async def test_of_two_alike_in_one_breath_the_one_that_is_stored_rests_on_both(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, facts(fact(QUOKKA, 1), fact(QUOKKA, 2)))
    await say(memory, ANA, "I keep a quokka", "Yes, a quokka")
    await erase_the_only(memory)
    assert places(superuser) == set()


async def test_a_thought_that_stands_in_the_context_rests_on_who_says_it_again(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants quokka news.", 1)]))
    await say(memory, ANA, "Send me quokka news")
    await say(memory, LATER, "I want quokka news, I said")
    await erase_the_only(memory, "reflection")
    assert places(superuser) == set()


async def test_group_fact_stays_when_another_member_who_repeated_it_is_erased(
    memory: Mnemic, model: LoopbackModel
) -> None:
    berth = "The crew keeps its boat at berth nine."
    bo, ana = (identity(user, groups=["crew"], session=user) for user in ("bo", "ana"))
    model.answer(FACTS, facts(fact(berth, 1, scope="group")))
    for who in (bo, ana):
        await memory.observe(who, turns(berth, user=who.user_id))
        await memory.form(who)
    assert [item.scope_key for item in await memory.memories(bo, ["fact"])] == ["group:crew"]
    await memory.privacy.erase_person(ana)
    assert await contents(memory, bo) == [berth]


DRAWN = "Plans for Ana have to allow for this: Ana keeps a quokka."
OTHER = "Ana is fond of small animals."


async def drawn_from(memory: Mnemic, model: LoopbackModel) -> None:
    """One sentence, of which a fact and two reflections are made."""
    model.answer(FACTS, facts(fact(QUOKKA, 1)))
    model.answer(REFLECTIONS, reflections(user=[reflection(DRAWN, 1), reflection(OTHER, 1)]))
    await say(memory, ANA, "I keep a quokka", "Well")


async def test_memories_of_one_sentence_that_state_the_same_fact_go_together(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await drawn_from(memory, model)
    (kept,) = await memory.memories(ANA, ["fact"])

    told = await memory.privacy.erase(ANA, kept.id, dry_run=True)
    assert {item.content for item in told.going} >= {QUOKKA, DRAWN, "I keep a quokka"}
    assert [(item.content, item.stays) for item in told.staying] == [(OTHER, "rests on the same messages")]
    await memory.privacy.erase(ANA, kept.id)
    assert [item.content for item in await memory.memories(ANA)] == [OTHER]
    assert places(superuser) == set()


@pytest.mark.thorough
async def test_control_without_that_rule_it_stays(fresh_db: Clone, model: LoopbackModel) -> None:
    with fresh_db.as_superuser() as owner:
        async with scripted_memory(fresh_db, model) as memory:
            mutate(owner, "plan_erasure", "s.memory_id = any(ids)", "false")
            await drawn_from(memory, model)
            await erase_the_only(memory)
        assert "memories" in places(owner)


async def test_a_message_that_no_memory_was_formed_from_is_erased_by_its_own_id(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        model.answer(FACTS, facts())
        await say(memory, ANA, "A quokka bit my thumb", "Well")
        (found,) = [item for item in await memory.query(ANA, "quokka") if "quokka" in item.content]
        stranger = identity("bo", session="s9")
        assert (await memory.privacy.erase(stranger, found.id)).erased == ()
        assert (await memory.privacy.erase(ANA, found.id)).erased == (found.id,)
    assert places(superuser) == set()


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


async def form(memory: Mnemic, who: Identity = ANA, *said: str) -> FormationResult:
    await memory.observe(who, turns(*(said or SAID)))
    (run,) = await memory.form(who)
    return run


async def test_the_days_pass_and_whoever_saves_next_takes_the_words(
    strict: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, facts(BEES))
    assert (await form(strict)).uncovered_messages == 0
    await form(strict, identity("ana", session="s2"), "Hello again.")
    assert words(superuser) == {*ALL, "Hello again."}

    let_days_pass(superuser)
    await form(strict, identity("bo", agent="museum", session="s3"), "I am Bo.")
    assert words(superuser) == {*ALL, "Hello again.", "I am Bo."}

    await form(strict, identity("bo", session="s3"), "One more thing.")
    assert words(superuser) == {"I am Bo.", "One more thing."}


async def test_an_administrator_takes_them_in_bounded_steps(
    strict: Mnemic, clean_db: Clone, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemic.storage.inbox._PART", 3)
    await form(strict)
    async with Administration.open(admin_url=clean_db.administrator_dsn) as office:
        assert await office.forget_messages(Identity(agent_id=ANA.agent_id)) == 0
        assert words(superuser) == ALL
        let_days_pass(superuser)
        assert await office.forget_messages(Identity(agent_id="museum")) == 0
        assert await office.forget_messages(Identity(agent_id=ANA.agent_id)) == 4
    assert words(superuser) == set()


NOT_ALL = facts(BEES, nothing_else=False)
#: Settings, answers, and what of the words is kept.
ACCOUNTS: list[tuple[dict[str, Any], dict[str, BaseModel], set[str]]] = [
    ({}, {FACTS: NOT_ALL}, ALL - {"I keep bees."}),
    ({}, {FACTS: facts(BEES), REFLECTIONS: reflections(episode="Ana came.", nothing_else=False)}, ALL - {SAID[0]}),
    # what a refused draft rests on holds something
    ({}, {FACTS: facts(BEES, fact("I moved to Ghent.", 4))}, {"I moved to Ghent."}),
    # and so does what had to give way to something more important
    (
        {"facts_per_ten_messages": 5},
        {FACTS: facts(*[fact(f"Ana keeps {n} bees.", n, importance=n) for n in (2, 3, 4)])},
        {"Good morning."},
    ),
    ({}, {REFLECTIONS: reflections(user=[reflection("Ana lives in Ghent.", 4)], nothing_else=False)}, ALL - {SAID[3]}),
    (
        {"extraction": "single"},
        {OBSERVATIONS: observations(observation("Ana keeps bees.", 1), nothing_else=False)},
        ALL - {"I keep bees."},
    ),
    ({"rag": False, "always_in_context": False}, {}, ALL),  # no step was asked
]


@pytest.mark.parametrize(("settings", "answers", "kept"), ACCOUNTS)
async def test_what_nothing_accounts_for_keeps_its_words(
    clean_db: Clone,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    settings: dict[str, Any],
    answers: dict[str, BaseModel],
    kept: set[str],
) -> None:
    for output, answer in {DECISIONS: decisions(), **answers}.items():
        model.answer(output, answer)
    async with scripted_memory(clean_db, model, keep_messages="none", forget_after_days=0, **settings) as memory:
        assert (await form(memory)).uncovered_messages == len(kept)
    assert words(superuser) == kept


@pytest.mark.parametrize("indexed", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["", "control"])
async def test_a_message_that_waits_is_shown_nowhere(
    strict: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    if indexed:
        monkeypatch.setattr(saving, "_kept_messages", lambda run, *_: run.batch)
    model.answer(FACTS, NOT_ALL)
    await form(strict)

    shown: list[str] = []
    for said in SAID:
        question = said.removeprefix("assistant: ")
        shown += [item.content for item in await strict.query(ANA, question)]
        shown.append(text_of((await strict.recall(ANA, question, search="always")).context))
    assert any(text in item for text in ALL for item in shown) == indexed


async def test_an_erasure_takes_what_waits_with_the_memory(
    strict: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    """The assistant's answer may repeat it."""
    model.answer(FACTS, facts(BEES))
    await form(strict)
    model.answer(FACTS, facts())
    await form(strict, identity("ana", session="s2"), "Hello again.")
    (bees,) = await strict.memories(ANA, ["fact"])
    await strict.privacy.erase(ANA, bees.id)

    assert words(superuser) == {"Hello again."}


@pytest.mark.thorough
async def test_control_a_service_that_does_not_wait_is_found_out(
    strict: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, inbox, settle=("clock_timestamp() + r.forget_after", "clock_timestamp() + 0 * r.forget_after"))
    with pytest.raises(AssertionError):
        await test_the_days_pass_and_whoever_saves_next_takes_the_words(strict, model, superuser)
