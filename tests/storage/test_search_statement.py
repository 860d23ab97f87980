"""The search statement: its branches, its two fusions, quoted phrases, pending embeddings."""

import uuid
from datetime import timedelta

import pytest

from mnemic.state.records import IndexedText
from mnemic.state.settings import Settings
from mnemic.storage import inbox
from mnemic.storage.database import Database
from mnemic.storage.migrate import migrate
from tests.support.asking import ME, ask, contents, keep
from tests.support.server import Server, cloned
from tests.support.worlds import MODEL, direction, identity, memory, message, remember


async def store(db: Database, texts: dict[str, float | None]) -> dict[uuid.UUID, str]:
    """Facts with the angle of their vector to the question's; None leaves the embedding pending."""
    facts = {text: memory(text) for text in texts}
    vectors = {facts[text].id: None if angle is None else direction(angle) for text, angle in texts.items()}
    await remember(db, ME, *facts.values(), vectors=vectors)
    return {fact.id: text for text, fact in facts.items()}


async def test_each_branch_finds_what_the_other_cannot(db: Database) -> None:
    by_word, by_meaning = "The lighthouse is closed.", "The beacon does not shine."
    await store(db, {by_word: 90, by_meaning: 5})
    question = "Is the lighthouse open?"
    assert contents(await ask(db, question, direction(0), search_type="text")) == [by_word]
    assert contents(await ask(db, question, direction(0), search_type="semantic", top_k=1)) == [by_meaning]
    assert set(contents(await ask(db, question, direction(0)))) == {by_word, by_meaning}


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
async def test_what_both_branches_like_comes_first(db: Database, fusion: str) -> None:
    both = "The lighthouse is closed on Mondays."
    await store(db, {both: 5, "The lighthouse has a red door.": 85, "The beacon does not shine.": 4, "Soup": 89})
    results = await ask(db, "When is the lighthouse closed?", direction(0), settings=Settings(fusion=fusion))
    assert contents(results)[0] == both
    scores = [one.score for one in results]
    assert scores == sorted(scores, reverse=True)


async def test_the_weighted_score_is_four_parts_text_and_six_parts_meaning(db: Database) -> None:
    await store(db, {"The lighthouse is closed.": 60, "The beacon does not shine.": 0})
    results = {one.content: one for one in await ask(db, "lighthouse", direction(0))}
    word, meaning = results["The lighthouse is closed."], results["The beacon does not shine."]
    assert word.explanation.similarity == pytest.approx(0.5, abs=0.001)
    assert word.score == pytest.approx(0.4 + 0.6 * 0.5, abs=0.001)
    assert meaning.score == pytest.approx(0.6, abs=0.001)


async def test_the_reciprocal_ranks_use_their_constant(db: Database) -> None:
    await store(db, {"The lighthouse is closed.": 60, "The beacon does not shine.": 0})
    results = {
        one.content: one.score
        for one in await ask(db, "lighthouse", direction(0), settings=Settings(fusion="rrf", rrf_k=9))
    }
    assert results["The lighthouse is closed."] == pytest.approx((1 + 10 / 11) / 2)
    assert results["The beacon does not shine."] == pytest.approx(1 / 2)


async def test_words_of_a_question_are_alternatives_and_quoted_phrases_are_demands(db: Database) -> None:
    near, far = "The old lighthouse keeper sings.", "The keeper of bees saw an old boat near the lighthouse."
    await store(db, {near: 90, far: 90, "The beacon does not shine.": 0})
    assert set(contents(await ask(db, "an old lighthouse keeper", direction(0)))) >= {near, far}
    assert contents(await ask(db, 'what does the "lighthouse keeper" do', direction(0))) == [near]
    assert contents(await ask(db, "what does the “lighthouse keeper” do", direction(0))) == [near]
    assert contents(await ask(db, '"lighthouse keeper" and "old boat"', direction(0))) == []
    assert contents(await ask(db, '"saw an old boat" or "near the lighthouse"', direction(0))) == [far]


async def test_typographic_quotes_are_quotes_in_a_database_of_locale_c(server: Server, template: str) -> None:
    """There Postgres takes them for letters."""
    with cloned(server, None, "encoding 'UTF8' locale_provider libc locale 'C'") as clone:
        await migrate(clone.superuser_dsn)
        async with clone.database() as db:
            await store(db, {"The old lighthouse keeper sings.": 90, "The lighthouse has a red door.": 90})
            found = await ask(db, "what does the “lighthouse keeper” do", direction(0))
    assert contents(found) == ["The old lighthouse keeper sings."]


@pytest.mark.parametrize(
    "question",
    [
        " ",
        "the",
        "' | ! & <-> :*",
        '""',
        '"the"',
        "a\\b 'c' :d*",
        "x" * 4000,
        "漢字",
        "%s %(name)s",
        '"(a|b" & "c):*"',
    ],
)
async def test_no_question_is_an_error(db: Database, question: str) -> None:
    await store(db, {"The lighthouse is closed.": 0})
    for vector in (direction(0), None):
        results = await ask(db, question, vector)
        assert contents(results) == ["The lighthouse is closed."][: len(results)]


async def test_a_pending_embedding_is_found_by_text_and_by_text_alone(db: Database) -> None:
    await store(db, {"The lighthouse is closed.": None, "Soup": 10})
    assert contents(await ask(db, "lighthouse", direction(0), search_type="semantic")) == ["Soup"]
    results = await ask(db, "lighthouse", direction(0))
    pending = next(one for one in results if one.content == "The lighthouse is closed.")
    assert pending.explanation.similarity is None
    assert pending.score == pytest.approx(0.4)


async def test_a_search_without_a_vector_is_a_search_by_text(db: Database) -> None:
    await store(db, {"The lighthouse is closed.": 0, "Soup": 0})
    (only,) = await ask(db, "lighthouse")
    assert (only.content, only.explanation.similarity) == ("The lighthouse is closed.", None)
    assert only.explanation.text is not None
    assert only.explanation.text > 0


async def test_a_source_that_the_reader_may_not_see_lifts_nothing(db: Database) -> None:
    said = message("Look, the lighthouse burned down! " + "It was a long night for all of us. " * 40, user="bob")
    group = identity("ana", groups=["pier"], session="s1")
    fact = memory("A landmark was destroyed.", key="group:pier", sources=[said])
    async with db.scoped(group, also=["user:bob"]) as scoped:
        await inbox.observe(scoped, "s1", [said])
        await inbox.index_messages(
            scoped, MODEL, [IndexedText(item_id=said.id, text=said.content, vector=direction(0))]
        )
    others = [memory("The lighthouse opens.", key="group:pier")]
    vectors = {fact.id: direction(80), others[0].id: direction(0)}
    await remember(db, group, fact, *others, also=["user:bob"], vectors=vectors)
    for also, lifted in (((), False), (("user:bob",), True)):
        results = {one.item_id: one for one in await ask(db, "lighthouse burned", direction(0), who=group, also=also)}
        assert (said.id in results) is lifted
        assert results[fact.id].explanation.from_source is lifted
        assert (results[fact.id].score > 0.5) is lifted


async def test_a_message_whose_content_is_gone_is_no_result(db: Database) -> None:
    said = message("the lighthouse burned")
    await keep(db, said, direction(0))
    async with db.scoped(ME) as scoped:
        await inbox.forget_later(scoped, [said.id], timedelta(0))
        await inbox.forget_due(scoped)
    assert await ask(db, "lighthouse", direction(0)) == []


async def test_no_more_than_asked_for_and_the_same_every_time(db: Database) -> None:
    await store(db, {f"lighthouse {number}": 0 for number in range(12)})
    runs = [[one.item_id for one in await ask(db, "lighthouse", direction(0), top_k=5)] for _ in range(3)]
    assert len(runs[0]) == 5
    assert runs[0] == runs[1] == runs[2]
