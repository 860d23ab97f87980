"""What narrows a search, in every branch and for what comes along: filters, scopes, categories, kinds, a threshold."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import psycopg
import pytest

from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.query import MemoryFilters
from mnemic.state.records import NewMemory, Relation
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from tests.support.searching import ME, ask, contents, keep
from tests.support.worlds import MORNING, direction, identity, memory, message, remember

QUESTION = "lighthouse"
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
    angles = {"lighthouse near": 30, "lighthouse far": 61, "lighthouse pending": None}
    facts = [memory(text) for text in angles]
    vectors = {fact.id: None if (angle := angles[fact.content]) is None else direction(angle) for fact in facts}
    await remember(db, ME, *facts, vectors=vectors)
    assert await find(db, who=ME) == set(angles)
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
