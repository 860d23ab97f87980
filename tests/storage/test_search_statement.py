"""The statement that searches, and what it is sent: branches, fusions, phrases, filters, companions."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import psycopg
import pytest
from pgvector import HalfVector

from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.query import MemoryFilters
from mnemic.state.records import IndexedText, NewMemory, Relation
from mnemic.state.settings import Settings
from mnemic.storage import inbox
from mnemic.storage.database import Database
from mnemic.storage.migrate import migrate
from mnemic.storage.transaction import half_vectors
from tests.support.searching import ME, ask, contents, keep
from tests.support.server import Server, cloned
from tests.support.worlds import MODEL, MORNING, direction, identity, memory, message, remember

QUESTION = "lighthouse"


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
    scores = [item.score for item in results]
    assert scores == sorted(scores, reverse=True)


async def test_the_weighted_score_is_four_parts_text_and_six_parts_meaning(db: Database) -> None:
    await store(db, {"The lighthouse is closed.": 60, "The beacon does not shine.": 0})
    results = {item.content: item for item in await ask(db, "lighthouse", direction(0))}
    word, meaning = results["The lighthouse is closed."], results["The beacon does not shine."]
    assert word.explanation.similarity == pytest.approx(0.5, abs=0.001)
    assert word.score == pytest.approx(0.4 + 0.6 * 0.5, abs=0.001)
    assert meaning.score == pytest.approx(0.6, abs=0.001)


async def test_words_of_a_question_are_alternatives_and_quoted_phrases_required(db: Database) -> None:
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


#: What might be taken for an operator, a placeholder, or nothing.
ODD = (" ", "the", "' | ! & <-> :*", '""', '"the"', "a\\b 'c' :d*", "漢字", "%s %(name)s", '"(a|b" & "c):*"')


async def test_no_question_is_an_error(db: Database) -> None:
    await store(db, {"The lighthouse is closed.": 0})
    for question in (*ODD, "x" * 4000):
        for vector in (direction(0), None):
            results = await ask(db, question, vector)
            assert contents(results) == ["The lighthouse is closed."][: len(results)], question


async def test_a_pending_embedding_is_found_by_text_and_by_text_alone(db: Database) -> None:
    await store(db, {"The lighthouse is closed.": None, "Soup": 10})
    assert contents(await ask(db, "lighthouse", direction(0), search_type="semantic")) == ["Soup"]
    results = await ask(db, "lighthouse", direction(0))
    pending = next(item for item in results if item.content == "The lighthouse is closed.")
    assert pending.explanation.similarity is None
    assert pending.score == pytest.approx(0.4)
    (only,) = await ask(db, "lighthouse")  # without a vector it is a search by text
    assert (only.content, only.explanation.similarity) == (pending.content, None)
    assert (only.explanation.text or 0) > 0


async def test_a_source_that_the_reader_may_not_see_lifts_nothing(db: Database) -> None:
    said = message("Look, the lighthouse burned down! " + "It was a long night for all of us. " * 40, user="bob")
    group = identity("ana", groups=["pier"], session="s1")
    fact = memory("A landmark was destroyed.", key="group:pier", sources=[said])
    async with db.transaction(group, also=["user:bob"]) as tx:
        await inbox.observe(tx, "s1", [said])
        await inbox.index_messages(tx, MODEL, [IndexedText(item_id=said.id, text=said.content, vector=direction(0))])
    others = [memory("The lighthouse opens.", key="group:pier")]
    vectors = {fact.id: direction(80), others[0].id: direction(0)}
    await remember(db, group, fact, *others, also=["user:bob"], vectors=vectors)
    for also, lifted in (((), False), (("user:bob",), True)):
        results = {item.id: item for item in await ask(db, "lighthouse burned", direction(0), who=group, also=also)}
        assert (said.id in results) is lifted
        assert results[fact.id].explanation.from_source is lifted
        assert (results[fact.id].score > 0.5) is lifted


async def test_a_message_whose_content_is_gone_is_no_result(db: Database) -> None:
    said = message("the lighthouse burned")
    await keep(db, said, direction(0))
    async with db.transaction(ME) as tx:
        op_id = await tx.begin_operation("formation")
        await inbox.settle(tx, op_id, [said], read_revision=0, forget_after={said.id: timedelta(0)})
        await inbox.forget_due(tx)
    assert await ask(db, "lighthouse", direction(0)) == []


async def test_a_fact_takes_the_score_of_the_long_message_it_was_formed_from(db: Database) -> None:
    """Nobody wants the length of it in a prompt; a fact of the same words without that source stays where it was."""
    said = message("Look, the lighthouse burned down last night! " + "It was a long night for all of us. " * 40)
    await keep(db, said, direction(2))
    fact, lone = memory("A landmark was destroyed.", sources=[said]), memory("A landmark was repaired.")
    await remember(db, ME, fact, lone, vectors={fact.id: direction(70), lone.id: direction(70)})
    found = {item.id: item for item in await ask(db, "what happened to the lighthouse", direction(0))}
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
    names = {name for item in results for name in item.explanation.boosts}
    expected = {"named", "important", "insight", "neighbour", "in_session", "source", "repeated", "related", "asks"}
    assert names == expected


async def test_memories_related_to_the_results_come_along_behind_them(db: Database) -> None:
    strengths = {"weak": 0.3, "strong": 0.6, "strongest": 0.9}
    others = {text: memory(text) for text in strengths}
    links = tuple(Relation(to_id=others[text].id, strength=strength) for text, strength in strengths.items())
    found = replace(memory("found"), relations=links)
    vectors: dict[uuid.UUID, tuple[float, ...]] = {item.id: direction(90) for item in others.values()}
    await remember(db, ME, *others.values(), found, vectors={**vectors, found.id: direction(0)})
    results = await ask(db, QUESTION, direction(0), top_k=1)
    assert contents(results) == ["found", "strongest", "strong"]
    assert [item.related_to for item in results] == [None, found.id, found.id]
    # from the other end of the relation too
    results = await ask(db, QUESTION, direction(90), top_k=1, search_type="semantic")
    assert results[0].content in others
    assert [item.related_to for item in results if item.content == "found"] == [results[0].id]


async def test_vectors_travel_in_binary(db: Database) -> None:
    vectors = half_vectors([(1.0, 0.5), None, (0.25, 2.0)])
    async with db.transaction(identity()) as tx:
        for sent, is_binary in ((vectors, 1), ([*vectors], 0)):  # a plain list goes as text
            cursor = await tx.execute("select unnest(%(vectors)b::halfvec[])", {"vectors": sent})
            assert await cursor.fetchall() == [(HalfVector([1.0, 0.5]),), (None,), (HalfVector([0.25, 2.0]),)]
            assert cursor._query is not None
            assert [int(form) for form in cursor._query.formats or ()] == [is_binary]


# -- what narrows a search, in every branch and for what comes along

WHO = identity(groups=["pier"], session="s1")


async def find(
    db: Database, *, who: Identity = WHO, filters: Mapping[str, Any] | None = None, **asked: Any
) -> set[str]:
    """What a hybrid search returns, after each branch alone has returned nothing else."""
    given = MemoryFilters(**(filters or {}))
    found = set(contents(await ask(db, QUESTION, direction(0), who=who, filters=given, **asked)))
    for branch in ("semantic", "text"):
        alone = await ask(db, QUESTION, direction(0), who=who, filters=given, search_type=branch, **asked)
        assert set(contents(alone)) <= found, branch
    return found


@pytest.fixture
async def world(db: Database) -> Database:
    """Facts of every scope, and messages of Ana and of the assistant."""
    facts = {
        "lighthouse of mine": memory("lighthouse of mine"),
        "lighthouse of the pier": memory("lighthouse of the pier", key="group:pier"),
        "lighthouse of all, of Ana": memory("lighthouse of all, of Ana", key="agent:harbor", subject_user="ana"),
        "lighthouse of all, of Bo": memory("lighthouse of all, of Bo", key="agent:harbor", subject_user="bo"),
    }
    vectors = {fact.id: direction(10) for fact in facts.values()}
    await remember(db, WHO, *facts.values(), vectors=vectors)
    await keep(db, message("lighthouse said I"), direction(10), who=WHO)
    await keep(db, message("lighthouse said it", user=None, role="assistant"), direction(10), who=WHO)
    return db


MINE = {"lighthouse of mine", "lighthouse of all, of Ana", "lighthouse said I"}
EVERYTHING = {*MINE, "lighthouse of the pier", "lighthouse of all, of Bo", "lighthouse said it"}


async def test_a_user_has_what_is_theirs_what_is_about_them_and_what_they_said(world: Database) -> None:
    assert await find(world) == EVERYTHING
    assert await find(world, filters={"user_id": "ana"}) == MINE
    assert await find(world, filters={"user_id": "bo"}) == {"lighthouse of all, of Bo"}
    assert await find(world, filters={"user_id": "nobody"}) == set()


OF_SCOPES: list[tuple[tuple[str, ...], set[str]]] = [
    (("group",), {"lighthouse of the pier"}),
    (("user", "session"), {"lighthouse of mine", "lighthouse said I", "lighthouse said it"}),
    (("agent",), {"lighthouse of all, of Ana", "lighthouse of all, of Bo"}),
    ((), set()),
]


async def test_scopes_narrow_alone_and_with_filters(world: Database) -> None:
    for scopes, expected in OF_SCOPES:
        assert await find(world, scopes=scopes) == expected, scopes
    assert await find(world, who=identity("bo"), scopes=("user", "group", "session")) == set()
    assert await find(world, filters={"user_id": "ana"}, scopes=("agent",)) == {"lighthouse of all, of Ana"}


async def test_pinned_important_and_recent_are_told_from_the_rest(
    world: Database, superuser: psycopg.Connection
) -> None:
    changed = "pinned = true, importance = 5, updated_at = '2020-05-05T12:00Z'"
    superuser.execute("set session_replication_role = replica")
    superuser.execute(f"update mnemic.memories set {changed} where content = 'lighthouse of mine'")
    superuser.execute("set session_replication_role = origin")
    mine, others = {"lighthouse of mine"}, EVERYTHING - {"lighthouse of mine"}
    assert await find(world, filters={"pinned": True}) == mine
    assert await find(world, filters={"pinned": False}) == others
    assert await find(world, filters={"importance_min": 3}) == mine
    assert await find(world, filters={"importance_max": 2}) == others
    assert await find(world, filters={"importance_min": 2, "importance_max": 4}) == others
    assert await find(world, filters={"updated_before": "2021-01-01"}) == mine
    assert await find(world, filters={"updated_after": "2021-01-01"}) == others
    assert await find(world, filters={"updated_after": "2020-05-05T12:00Z", "updated_before": "2020-05-06"}) == mine
    assert await find(world, filters={"updated_after": "2020-05-05", "updated_before": "2020-05-05T12:00Z"}) == set()


async def test_a_message_is_as_recent_as_it_was_said(world: Database) -> None:
    said = {text for text in EVERYTHING if "said" in text}
    after = MORNING + timedelta(microseconds=1)
    assert await find(world, filters={"updated_before": after}) == said
    assert await find(world, filters={"updated_before": MORNING}) == set()
    assert said <= await find(world, filters={"updated_after": MORNING})
    assert said.isdisjoint(await find(world, filters={"updated_after": after}))


async def test_only_the_given_categories_are_searched(db: Database) -> None:
    """The transaction is bound to no allowlist here: the statement itself names them."""
    known, task = memory("lighthouse known"), replace(memory("lighthouse task"), category="tasks")
    await remember(db, ME, known, task, vectors={known.id: direction(0), task.id: direction(0)})
    await keep(db, message("lighthouse said"), direction(0))
    everything = {"lighthouse known", "lighthouse task", "lighthouse said"}
    assert await find(db, who=ME) == everything
    assert await find(db, who=ME, allowed=["tasks"]) == {"lighthouse task"}
    assert await find(db, who=ME, allowed=["message"]) == {"lighthouse said"}
    assert await find(db, who=ME, allowed=[]) == set()


async def test_procedures_and_journals_come_only_when_their_category_is_named(db: Database) -> None:
    """A whole allowlist names nothing."""
    of_kind = {"procedure": "procedural", "journal": "journal"}
    stored = [
        replace(memory(f"lighthouse {kind}", kind=kind), category=of_kind.get(kind, "profile"))
        for kind in get_args(Kind)
        if kind != "fact"
    ]
    await remember(db, ME, *stored, vectors={item.id: direction(0) for item in stored})
    assert await find(db, who=ME) == {"lighthouse episode", "lighthouse insight"}
    assert await find(db, who=ME, categories=("procedural",)) == {"lighthouse procedure"}
    assert await find(db, who=ME, categories=("journal", "profile")) == {
        "lighthouse episode",
        "lighthouse insight",
        "lighthouse journal",
    }


async def test_a_threshold_is_a_cosine_and_leaves_out_what_has_no_vector(db: Database) -> None:
    await store(db, {"lighthouse near": 30, "lighthouse far": 61, "lighthouse pending": None})
    assert await find(db, who=ME) == {"lighthouse near", "lighthouse far", "lighthouse pending"}
    assert await find(db, who=ME, threshold=0.5) == {"lighthouse near"}
    assert await find(db, who=ME, threshold=0.0) == {"lighthouse near", "lighthouse far"}
    assert await ask(db, QUESTION, None, search_type="text", threshold=0.1) == []


async def test_a_threshold_and_filters_hold_before_the_candidates_are_cut(db: Database) -> None:
    """Of sixty entries that are nearer, none is asked for; the branches take ten each."""
    many = [memory(f"lighthouse {number}") for number in range(60)]
    wanted = [replace(memory(f"lighthouse wanted {number}"), importance=5) for number in range(10)]
    vectors = {item.id: direction(0) for item in many} | {item.id: direction(40) for item in wanted}
    await remember(db, ME, *many, *wanted, vectors=vectors)
    few = Settings(search_candidates=10)
    found = await find(db, who=ME, filters={"importance_min": 5}, settings=few)
    assert found == {item.content for item in wanted}


async def test_a_category_gives_no_more_than_its_length(db: Database) -> None:
    known = [memory(f"lighthouse {number}") for number in range(6)]
    tasks = [replace(memory(f"lighthouse task {number}"), category="tasks") for number in range(3)]
    vectors = {item.id: direction(number) for number, item in enumerate([*known, *tasks])}
    await remember(db, ME, *known, *tasks, vectors=vectors)
    results = await ask(db, QUESTION, direction(0), rag_lengths={"profile": 2, "tasks": 30}, top_k=4)
    assert contents(results) == ["lighthouse 0", "lighthouse 1", "lighthouse task 0", "lighthouse task 1"]
    assert len(await ask(db, QUESTION, direction(0), rag_lengths={"profile": 2, "tasks": 1})) == 3


def related(content: str, *to: NewMemory, **changes: Any) -> NewMemory:
    return replace(memory(content), relations=tuple(Relation(to_id=other.id, strength=0.9) for other in to), **changes)


async def test_what_comes_along_passes_every_filter_itself(db: Database) -> None:
    other = replace(memory("other"), category="tasks")
    journal = replace(memory("a journal", kind="journal"), category="journal")  # which never comes along
    found = related("lighthouse found", other, journal, importance=4)
    vectors = {other.id: direction(80), journal.id: direction(80), found.id: direction(0)}
    await remember(db, ME, other, journal, found, vectors=vectors)

    async def along(**asked: Any) -> list[str]:
        results = await ask(db, QUESTION, direction(0), top_k=1, **asked)
        assert contents(results)[:1] == ["lighthouse found"]
        return contents(results)[1:]

    assert await along() == ["other"]
    assert await along(allowed=["profile"]) == []
    assert await along(filters=MemoryFilters(importance_min=3)) == []
    assert await along(threshold=0.5) == []
    assert await along(threshold=0.1) == ["other"]
    assert await along(rag_lengths={"tasks": 0}) == []
