"""The history of a memory leads to what it was merged into, and of that one to what was merged."""

from dataclasses import replace
from uuid import UUID

import psycopg
import pytest

from mnemic import HistoryEvent, Mnemic
from mnemic.state.records import NewMemory, Relation
from mnemic.storage import history
from mnemic.storage.database import Database
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import BOTH, ENGLISH, KEY, OSLO, SHORT, keep, merge, newest, play
from tests.support.rollbacks import ANA
from tests.support.server import Clone
from tests.support.worlds import identity, remember
from tests.support.worlds import memory as a_memory

#: A policy of memories as it was before there were categories.
_EVERY_CATEGORY = (
    "agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))"
    " and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[])"
)


@pytest.fixture
async def merged(memory: Mnemic, model: LoopbackModel) -> tuple[list[UUID], UUID]:
    """Two memories that became one, and the refinement that did it."""
    made = await keep(memory, SHORT, ENGLISH)
    _, result = await play(memory, model, merge(1, 2))
    return [one.id for one in made], UUID(result["refinement_id"])


def merges(events: list[HistoryEvent]) -> list[tuple[str, list[UUID], UUID | None]]:
    return [(event.event, event.merged_from, event.merged_into) for event in events]


async def test_what_was_merged_leads_to_what_it_became_and_back(
    memory: Mnemic, merged: tuple[list[UUID], UUID], superuser: psycopg.Connection
) -> None:
    parts, _ = merged
    whole = newest(superuser, BOTH)
    assert merges(await memory.history(ANA, whole)) == [("ADD", parts, None)]
    for part in parts:
        assert merges(await memory.history(ANA, part)) == [("ADD", [], None), ("MERGE", [], whole)]


async def test_a_merge_that_was_undone_is_told_no_more_and_one_done_again_with_its_own_successor(
    memory: Mnemic, model: LoopbackModel, merged: tuple[list[UUID], UUID], superuser: psycopg.Connection
) -> None:
    parts, refinement_id = merged
    await memory.undo_refinement(ANA, refinement_id)
    for one in (newest(superuser, BOTH), *parts):
        assert {(*from_, into) for _, from_, into in merges(await memory.history(ANA, one))} == {(None,)}
    await play(memory, model, merge(1, 2, into="Ana wants short answers in English."))
    again = newest(superuser, "Ana wants short answers in English.")
    told = [into for _, _, into in merges(await memory.history(ANA, parts[0])) if into]
    assert told == [again]


async def test_nobody_else_is_told_of_either(
    memory: Mnemic, merged: tuple[list[UUID], UUID], superuser: psycopg.Connection
) -> None:
    for one in (newest(superuser, BOTH), *merged[0]):
        for stranger in (identity("bo"), identity("ana", agent="museum")):
            assert await memory.history(stranger, one) == []


async def of_two_categories(db: Database) -> NewMemory:
    """A memory that was merged from one of its own category and one of another."""
    task, knowledge = (
        replace(a_memory(text, kind="core"), category=category)
        for text, category in ((SHORT, "tasks"), (ENGLISH, "knowledge"))
    )
    relations = [Relation(to_id=one.id, strength=1, relation_type="merged_from") for one in (task, knowledge)]
    whole = replace(a_memory(BOTH, kind="core"), category="tasks", relations=tuple(relations))
    await remember(db, ANA, task, knowledge)
    await remember(db, ANA, whole)
    return whole


async def parts_told(db: Database, whole: NewMemory, categories: list[str] | None) -> int:
    async with db.scoped(ANA, categories=categories) as scoped:
        (event,) = await history.of_memory(scoped, whole.id)
    return len(event.merged_from)


async def test_a_part_of_a_category_that_may_not_be_read_is_not_named(db: Database) -> None:
    whole = await of_two_categories(db)
    assert await parts_told(db, whole, None) == 2
    assert await parts_told(db, whole, ["tasks"]) == 1


@pytest.mark.thorough
async def test_control_without_the_clause_of_categories_it_would_be(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        whole = await of_two_categories(db)
        with fresh_db.as_superuser() as connection:
            connection.execute(f"alter policy service on mnemic.memories using ({_EVERY_CATEGORY})".encode())
        assert await parts_told(db, whole, ["tasks"]) == 2


async def test_what_was_shared_more_narrowly_is_not_named(db: Database) -> None:
    """No merge crosses scope keys; a relation that does is seen by whoever sees both its ends."""
    own = a_memory(OSLO, key=KEY)
    shared = replace(
        a_memory(BOTH, key="agent:harbor"),
        relations=(Relation(to_id=own.id, strength=1, relation_type="merged_from"),),
    )
    await remember(db, ANA, own)
    await remember(db, ANA, shared)
    for who, told in ((ANA, [own.id]), (identity("bo"), [])):
        async with db.scoped(who) as scoped:
            (event,) = await history.of_memory(scoped, shared.id)
        assert event.merged_from == told
