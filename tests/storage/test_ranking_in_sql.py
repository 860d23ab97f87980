"""What is added to a score: each addition changes an order, and without it the order is another."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from mnemic.policy.recall.scoring import PLAIN, WEIGHTS
from mnemic.state.records import Found, NewMemory, Relation
from mnemic.storage.database import Database
from tests.support.asking import ME, ask, contents, keep
from tests.support.worlds import direction, identity, memory, message, remember

QUESTION = "Where is the lighthouse?"
#: Nearer to the question, and a little farther: less apart than any addition is worth.
NEAR, FAR = 20, 24


async def both_orders(db: Database, only: str, **asked: Any) -> tuple[list[str], list[str]]:
    """Texts as the one addition orders them, and as nothing does."""
    one = replace(PLAIN, **{only: getattr(WEIGHTS, only)})
    with_it = await ask(db, asked.get("question", QUESTION), direction(0), weights=one, search_type="semantic")
    without = await ask(db, asked.get("question", QUESTION), direction(0), weights=PLAIN, search_type="semantic")
    return contents(with_it), contents(without)


async def store_two(db: Database, near: NewMemory, far: NewMemory) -> None:
    await remember(db, ME, near, far, vectors={near.id: direction(NEAR), far.id: direction(FAR)})


async def test_a_fact_about_somebody_the_question_names_comes_first(db: Database) -> None:
    await store_two(db, replace(memory("near"), subject="Bo"), replace(memory("far"), subject="Ines Duarte"))
    question = "Where does Ines keep the boat?"
    assert await both_orders(db, "named", question=question) == (["far", "near"], ["near", "far"])
    assert (await both_orders(db, "named", question="Where is it?"))[0] == ["near", "far"]


async def test_what_the_named_speaker_said_comes_first(db: Database) -> None:
    await keep(db, replace(message("near"), author="Bo"), direction(NEAR))
    await keep(db, replace(message("far", session="s2"), author="Ines"), direction(FAR), who=identity(session="s2"))
    question = "What did Ines say?"
    assert await both_orders(db, "named", question=question) == (["far", "near"], ["near", "far"])


@pytest.mark.parametrize("question", ["Where is my boat?", "What did I say?"])
async def test_the_askers_own_affairs_come_first_where_they_are_meant(db: Database, question: str) -> None:
    await store_two(db, replace(memory("near"), subject="Bo"), replace(memory("far", subject_user="ana"), subject="X"))
    assert await both_orders(db, "named", question=question) == (["far", "near"], ["near", "far"])


async def test_what_is_important_comes_first(db: Database) -> None:
    await store_two(db, memory("near"), replace(memory("far"), importance=5))
    assert await both_orders(db, "importance") == (["far", "near"], ["near", "far"])


async def test_an_insight_counts_for_less(db: Database) -> None:
    await store_two(db, memory("near", kind="insight"), memory("far"))
    assert await both_orders(db, "insight") == (["far", "near"], ["near", "far"])


async def test_a_message_beside_one_that_fits_comes_first(db: Database) -> None:
    told = [message("fits"), message("beside"), message("apart"), message("far apart")]
    for said, angle in zip(told, (0, FAR, 90, NEAR), strict=True):
        await keep(db, said, direction(angle))
    assert await both_orders(db, "neighbour") == (
        ["fits", "beside", "far apart", "apart"],
        ["fits", "far apart", "beside", "apart"],
    )


async def test_a_message_of_a_session_that_fits_comes_first(db: Database) -> None:
    for text, angle, session in (("lone", NEAR, "s1"), ("fits", 0, "s2"), ("fits too", 5, "s2"), ("far", FAR, "s2")):
        await keep(db, message(text, session=session), direction(angle), who=identity(session=session))
    assert await both_orders(db, "session") == (
        ["fits", "fits too", "far", "lone"],
        ["fits", "fits too", "lone", "far"],
    )


async def test_a_fact_has_the_neighbours_of_the_message_it_was_formed_from(db: Database) -> None:
    told = [message("fits"), message("source")]
    for said, angle in zip(told, (0, 80), strict=True):
        await keep(db, said, direction(angle))
    await remember(
        db,
        ME,
        near := memory("near"),
        far := memory("far", sources=[told[1]]),
        vectors={near.id: direction(NEAR), far.id: direction(FAR)},
    )
    with_it, without = await both_orders(db, "neighbour")
    assert with_it.index("far") < with_it.index("near")
    assert without.index("near") < without.index("far")


async def test_a_memory_related_to_another_candidate_comes_first(db: Database) -> None:
    near, far, third = memory("near"), memory("far"), memory("third")
    linked = replace(far, relations=(Relation(to_id=third.id, strength=1.0),))
    vectors = {near.id: direction(NEAR), far.id: direction(FAR), third.id: direction(89)}
    await remember(db, ME, near, third, linked, vectors=vectors)
    assert await both_orders(db, "related") == (["far", "near", "third"], ["near", "far", "third"])


async def test_what_repeats_a_better_result_steps_back(db: Database) -> None:
    """A message that fits better than its fact tells it, and one that fits less is told by it."""
    better, worse = message("the message fits better"), message("the message fits less")
    await keep(db, better, direction(10))
    await keep(db, worse, direction(40))
    fitting, lesser = memory("the fact fits better", sources=[worse]), memory("the fact fits less", sources=[better])
    other = memory("another")
    vectors = {fitting.id: direction(5), lesser.id: direction(20), other.id: direction(50)}
    await remember(db, ME, fitting, lesser, other, vectors=vectors)
    with_it, without = await both_orders(db, "repeated")
    assert with_it[:3] == ["the fact fits better", "the message fits better", "another"]
    assert without.index("another") == 4


async def test_two_facts_of_one_message_do_not_repeat_each_other(db: Database) -> None:
    said = message("both")
    await keep(db, said, direction(60))
    first, second = memory("first", sources=[said]), memory("second", sources=[said])
    await remember(db, ME, first, second, vectors={first.id: direction(5), second.id: direction(10)})
    results = await ask(db, QUESTION, direction(0))
    assert contents(results) == ["first", "second", "both"]
    assert ["repeated" in one.explanation.boosts for one in results] == [False, False, True]


async def test_a_fact_takes_the_score_of_the_long_message_it_was_formed_from(db: Database) -> None:
    """Nobody wants the length of it in a prompt; a fact of the same words without that source stays where it was."""
    said = message("Look, the lighthouse burned down last night! " + "It was a long night for all of us. " * 40)
    await keep(db, said, direction(2))
    fact, lone = memory("A landmark was destroyed.", sources=[said]), memory("A landmark was repaired.")
    await remember(db, ME, fact, lone, vectors={fact.id: direction(70), lone.id: direction(70)})
    found = {one.item_id: one for one in await ask(db, "what happened to the lighthouse", direction(0))}
    assert found[fact.id].explanation.from_source
    assert found[fact.id].score > 0.9 > found[said.id].score > found[lone.id].score
    assert not found[lone.id].explanation.from_source


async def test_how_old_a_memory_is_plays_no_part(db: Database) -> None:
    old, new = memory("old"), memory("new")
    old = replace(old, valid_from=old.valid_from.replace(year=1999))
    await remember(db, ME, old, new, vectors={old.id: direction(10), new.id: direction(10)})
    first, second = await ask(db, QUESTION, direction(0))
    assert first.score == second.score


async def test_a_score_is_the_sum_of_its_explanation(db: Database) -> None:
    said = message("The lighthouse of Ana burned " + "for a very long time " * 60)
    await keep(db, said, direction(5))
    await keep(db, message("Who lives there?"), direction(50))
    fact = replace(memory("Ana saw it burn.", sources=[said]), importance=5)
    guess = memory("Ana fears fire.", kind="insight")
    tied = replace(memory("Ana moved."), relations=(Relation(to_id=fact.id, strength=0.8),))
    vectors = {fact.id: direction(40), guess.id: direction(30), tied.id: direction(35)}
    await remember(db, ME, fact, guess, tied, vectors=vectors)
    results = await ask(db, "Did the lighthouse of Ana burn?", direction(0))
    for one in results:
        assert one.score == pytest.approx(one.explanation.fused + sum(one.explanation.boosts.values()))
    names = {name for one in results for name in one.explanation.boosts}
    assert names == {
        *("named", "important", "insight", "neighbour", "in_session", "source", "repeated", "related"),
    }


def by_content(results: list[Found]) -> dict[str, Found]:
    return {one.content: one for one in results}


async def test_memories_related_to_the_results_come_along_behind_them(db: Database) -> None:
    others = {text: memory(text) for text in ("weak", "strong", "strongest")}
    links = [("weak", 0.3), ("strong", 0.6), ("strongest", 0.9)]
    found = replace(
        memory("found"),
        relations=tuple(Relation(to_id=others[text].id, strength=strength) for text, strength in links),
    )
    vectors: dict[uuid.UUID, tuple[float, ...]] = {one.id: direction(90) for one in others.values()}
    await remember(db, ME, *others.values(), found, vectors={**vectors, found.id: direction(0)})
    results = await ask(db, QUESTION, direction(0), top_k=1)
    assert contents(results) == ["found", "strongest", "strong"]
    assert [one.related_to for one in results] == [None, found.id, found.id]
    # from the other end of the relation too
    results = await ask(db, QUESTION, direction(90), top_k=1, search_type="semantic")
    assert results[0].content in others
    assert by_content(results)["found"].related_to == results[0].item_id
