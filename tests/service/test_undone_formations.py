"""Rollback through the product: what recall answers goes back and comes again with formations and consolidations."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import HistoryEvent, Mnemic
from mnemic.state.errors import UnknownOperationError
from mnemic.state.identity import Identity
from mnemic.state.records import Relation
from mnemic.storage import history
from mnemic.storage.database import Database
from tests.support.loopback import LoopbackModel
from tests.support.refinements import BOTH, ENGLISH, KEY, SHORT, keep, merge, newest, play
from tests.support.rollbacks import ANA, op_ids
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    REFLECTIONS,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    say,
)
from tests.support.worlds import identity, remember, text_of
from tests.support.worlds import memory as a_memory

HERE, THERE = identity("ana", session="here"), identity("ana", session="there")
OSLO, BERGEN = "Ana lives in Oslo with her two cats.", "Ana lives in Bergen with her two cats."


async def lives(
    memory: Mnemic, model: LoopbackModel, text: str, *decided: Any, who: Identity = THERE, thinks: bool = True
) -> None:
    """A formation that keeps one fact, and a reflection and an episode."""
    model.answer(FACTS, facts(fact(text, 1)))
    model.answer(DECISIONS, decisions(*decided))
    thoughts = reflections(user=[reflection(f"Ana means what she says: {text}")], episode=f"So: {text}")
    model.answer(REFLECTIONS, thoughts if thinks else reflections())
    await say(memory, who, f"I say {text}", "Well.")


async def without_consolidations(memory: Mnemic) -> None:
    """What rests on a fact that a formation closes would be consolidated behind it, by another operation."""
    await memory.admin.configure_scope(ANA, "user:ana", is_active=False)


async def answer(memory: Mnemic) -> tuple[str, list[tuple[object, str]]]:
    """All that a recall says, and what is found; to somebody without a session, whom nothing is announced to."""
    found = await memory.query(identity("ana"), "Where does Ana live with her cats?", top_k=20)
    return text_of((await memory.recall(identity("ana"), "Do you remember where I live?")).context), [
        (item.id, item.content) for item in found
    ]


async def test_undone_formation_takes_its_answer_along_and_a_redo_restores_it(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await without_consolidations(memory)
    await lives(memory, model, OSLO, who=HERE)
    before = await answer(memory)
    await lives(memory, model, BERGEN, decision(1, "DELETE", 1, text=BERGEN))
    after = await answer(memory)
    assert OSLO in before[0]
    assert BERGEN in after[0]

    undone = await memory.history.undo(THERE, op_ids(superuser)[-1])
    assert await answer(memory) == before
    assert undone.op_id
    assert await memory.form(THERE) == []  # its messages stay settled
    await memory.history.undo(THERE, undone.op_id)
    assert await answer(memory) == after


async def test_all_that_a_session_formed_since_a_moment_is_undone_as_one(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await without_consolidations(memory)
    await lives(memory, model, OSLO)
    since = datetime.now(UTC)
    await lives(memory, model, "Ana paints boats.", who=HERE)
    before = await answer(memory)
    await lives(memory, model, BERGEN, decision(1, "DELETE", 1, text=BERGEN))
    await lives(memory, model, "Ana sails to Ryd in May.", thinks=False)
    assert await answer(memory) != before
    for session, moment in (("no such session", since), ("there", datetime.now(UTC))):
        with pytest.raises(UnknownOperationError):
            await memory.history.undo_session(THERE, session, moment)
    done = (await memory.history.undo_session(THERE, "there", since)).op_id

    assert await answer(memory) == before
    assert op_ids(superuser)[-1] == done


async def test_other_sessions_are_told_of_a_rollback(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async def signs() -> set[str]:
        recalled = await memory.recall(HERE)
        await memory.observe(HERE, [], revision=recalled.revision)
        return {update.sign for update in recalled.updates}

    await signs()
    await lives(memory, model, OSLO, thinks=False)
    assert await signs() == {"+created"}

    undone = await memory.history.undo(THERE, op_ids(superuser)[-1])
    assert "- ~soft-deleted: [Projects]" in text_of((await memory.recall(HERE)).context)
    assert await signs() == {"~soft-deleted"}
    assert undone.op_id
    await memory.history.undo(THERE, undone.op_id)
    assert f"- ⟲restored: [Projects] {OSLO}" in text_of((await memory.recall(HERE)).context)
    assert await signs() == {"⟲restored"}
    assert await signs() == set()


async def test_words_that_were_not_kept_do_not_come_back(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    def words() -> list[str]:
        rows = superuser.execute("select content from mnemic.messages where content is not null order by content")
        return [content for (content,) in rows.fetchall()]

    await memory.admin.configure_agent(HERE, keep_messages="sources")
    await lives(memory, model, OSLO, thinks=False)
    superuser.execute("update mnemic.messages set content = null where forget_at is not null")  # as days later
    assert words() == [f"I say {OSLO}"]
    undone = await memory.history.undo(THERE, op_ids(superuser)[-1])
    assert await memory.query(identity("ana"), "Oslo") == []
    assert words() == [f"I say {OSLO}"]
    assert undone.op_id
    await memory.history.undo(THERE, undone.op_id)
    assert OSLO in [item.content for item in await memory.query(identity("ana"), "Oslo")]


# -- the history of a memory leads to what it was merged into, and of that one to what was merged


@pytest.fixture
async def merged(memory: Mnemic, model: LoopbackModel) -> tuple[list[UUID], UUID]:
    """Two memories that became one, and the refinement that did it."""
    made = await keep(memory, SHORT, ENGLISH)
    _, result = await play(memory, model, merge(1, 2))
    return [item.id for item in made], result.id or UUID(int=0)


def merges(events: list[HistoryEvent]) -> list[tuple[str, list[UUID], UUID | None]]:
    return [(event.event, event.merged_from, event.merged_into) for event in events]


async def test_what_was_merged_leads_to_what_it_became_and_back(
    memory: Mnemic, merged: tuple[list[UUID], UUID], superuser: psycopg.Connection
) -> None:
    parts, _ = merged
    whole = newest(superuser, BOTH)
    assert merges(await memory.history.events(ANA, whole)) == [("ADD", parts, None)]
    for part in parts:
        assert merges(await memory.history.events(ANA, part)) == [("ADD", [], None), ("MERGE", [], whole)]


async def test_undone_merge_is_not_announced_and_a_redo_has_a_new_successor(
    memory: Mnemic, model: LoopbackModel, merged: tuple[list[UUID], UUID], superuser: psycopg.Connection
) -> None:
    parts, refinement_id = merged
    await memory.history.undo_refinement(ANA, refinement_id)
    for one in (newest(superuser, BOTH), *parts):
        assert {(*from_, into) for _, from_, into in merges(await memory.history.events(ANA, one))} == {(None,)}
    await play(memory, model, merge(1, 2, into="Ana wants short answers in English."))
    again = newest(superuser, "Ana wants short answers in English.")
    told = [into for _, _, into in merges(await memory.history.events(ANA, parts[0])) if into]
    assert told == [again]


async def test_a_part_of_a_category_that_may_not_be_read_is_not_named(db: Database) -> None:
    """A memory that was merged from one of its own category and one of another."""
    task, knowledge = (
        replace(a_memory(text, kind="core"), category=category)
        for text, category in ((SHORT, "tasks"), (ENGLISH, "knowledge"))
    )
    relations = [Relation(to_id=item.id, strength=1, relation_type="merged_from") for item in (task, knowledge)]
    whole = replace(a_memory(BOTH, kind="core"), category="tasks", relations=tuple(relations))
    await remember(db, ANA, task, knowledge)
    await remember(db, ANA, whole)
    for categories, parts in ((None, 2), (["tasks"], 1)):
        async with db.transaction(ANA, categories=categories) as tx:
            (event,) = await history.read_memory_history(tx, whole.id)
        assert len(event.merged_from) == parts


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
        async with db.transaction(who) as tx:
            (event,) = await history.read_memory_history(tx, shared.id)
        assert event.merged_from == told
