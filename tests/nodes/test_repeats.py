"""A message that says again what is known is a source of it: it is kept, found, forgotten and erased with it."""

import psycopg
import pytest

from mnemic.nodes.formation import save
from mnemic.service.memory import Mnemic
from tests.support.erasing import places
from tests.support.loopback import LoopbackModel
from tests.support.mutating import mutate
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    REFLECTIONS,
    contents,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

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


@pytest.mark.parametrize("again", [QUOKKA, ALIKE], ids=["word for word", "as the model decides"])
async def test_an_erasure_takes_what_was_said_twice_in_two_sessions(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, again: str
) -> None:
    await say_twice(memory, model, again)
    found = [item.content for item in await memory.query(ANA, "quokka")]
    assert {"I keep a quokka", "As I said, a quokka"} <= {*found}
    (kept,) = await memory.memories(ANA, ["fact"])
    await memory.erase(ANA, kept.id)
    assert await memory.query(ANA, "quokka") == []
    assert places(superuser) == set()


@pytest.mark.parametrize("again", [QUOKKA, pytest.param(ALIKE, marks=pytest.mark.thorough)])
async def test_where_nothing_ties_the_second_message_to_the_memory_it_stays(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """The control."""
    monkeypatch.setattr(save, "further_sources", lambda *_: [])
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        await say_twice(memory, model, again)
        (kept,) = await memory.memories(ANA, ["fact"])
        await memory.erase(ANA, kept.id)
    assert places(superuser) == {"messages", "entries"}


async def test_of_two_alike_in_one_breath_the_one_that_is_stored_rests_on_both(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(FACTS, facts(fact(QUOKKA, 1), fact(QUOKKA, 2)))
    await say(memory, ANA, "I keep a quokka", "Yes, a quokka")
    (kept,) = await memory.memories(ANA, ["fact"])
    await memory.erase(ANA, kept.id)
    assert places(superuser) == set()


async def test_a_thought_that_stands_in_the_context_rests_on_who_says_it_again(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants quokka news.", 1)]))
    await say(memory, ANA, "Send me quokka news")
    await say(memory, LATER, "I want quokka news, I said")
    (kept,) = await memory.memories(ANA, ["reflection"])
    await memory.erase(ANA, kept.id)
    assert places(superuser) == set()


async def test_a_forgotten_fact_is_not_found_by_what_repeated_it(memory: Mnemic, model: LoopbackModel) -> None:
    await say_twice(memory, model, QUOKKA)
    (kept,) = await memory.memories(ANA, ["fact"])
    await memory.forget(ANA, kept.id)
    assert await memory.query(ANA, "quokka") == []


async def test_what_a_group_was_told_by_one_stays_when_another_who_repeated_it_is_erased(
    memory: Mnemic, model: LoopbackModel
) -> None:
    berth = "The crew keeps its boat at berth nine."
    bo, ana = (identity(user, groups=["crew"], session=user) for user in ("bo", "ana"))
    model.answer(FACTS, facts(fact(berth, 1, scope="group")))
    for who in (bo, ana):
        await memory.observe(who, turns(berth, user=who.user_id))
        await memory.form(who)
    assert [item.scope_key for item in await memory.memories(bo, ["fact"])] == ["group:crew"]
    await memory.erase_person(ana)
    assert await contents(memory, bo) == [berth]


DRAWN = "Plans for Ana have to allow for this: Ana keeps a quokka."
OTHER = "Ana is fond of small animals."


async def drawn_from(memory: Mnemic, model: LoopbackModel) -> None:
    """One sentence, of which a fact and two reflections are made."""
    model.answer(FACTS, facts(fact(QUOKKA, 1)))
    model.answer(REFLECTIONS, reflections(user=[reflection(DRAWN, 1), reflection(OTHER, 1)]))
    await say(memory, ANA, "I keep a quokka", "Well")


async def test_what_was_drawn_from_the_same_sentence_and_says_it_too_goes_with_it(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await drawn_from(memory, model)
    (kept,) = await memory.memories(ANA, ["fact"])

    told = await memory.erase(ANA, kept.id, dry_run=True)
    assert {one.content for one in told.going} >= {QUOKKA, DRAWN, "I keep a quokka"}
    assert [(one.content, one.stays) for one in told.staying] == [(OTHER, "rests on the same messages")]
    await memory.erase(ANA, kept.id)
    assert [one.content for one in await memory.memories(ANA)] == [OTHER]
    assert places(superuser) == set()


@pytest.mark.thorough
async def test_control_without_that_rule_it_stays(fresh_db: Clone, model: LoopbackModel) -> None:
    with fresh_db.as_superuser() as owner:
        async with scripted_memory(fresh_db, model) as memory:
            mutate(owner, "plan_erasure", "s.memory_id = any(ids)", "false")
            await drawn_from(memory, model)
            (kept,) = await memory.memories(ANA, ["fact"])
            await memory.erase(ANA, kept.id)
        assert "memories" in places(owner)


async def test_a_message_that_no_memory_was_formed_from_is_erased_by_its_own_id(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with scripted_memory(clean_db, model, keep_messages="all") as memory:
        model.answer(FACTS, facts())
        await say(memory, ANA, "A quokka bit my thumb", "Well")
        (found,) = [one for one in await memory.query(ANA, "quokka") if "quokka" in one.content]
        stranger = identity("bo", session="s9")
        assert (await memory.erase(stranger, found.item_id)).erased == ()
        assert (await memory.erase(ANA, found.item_id)).erased == (found.item_id,)
    assert places(superuser) == set()


async def test_two_people_who_use_one_session_lose_no_words_to_each_other(memory: Mnemic) -> None:
    said = turns("I keep bees.", "Well")
    for user in ("ana", "bo"):
        observed = await memory.observe(identity(user, session="monday"), said)
        assert observed.accepted > 0
    assert (await memory.observe(identity("bo", session="monday"), said)).accepted == 0
