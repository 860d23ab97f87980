"""Rollback through the product: what recall answers goes back and comes again with formations and consolidations."""

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.state.errors import UnknownOperationError
from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel
from tests.support.rollbacks import op_ids
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
from tests.support.worlds import identity

HERE, THERE = identity("ana", session="here"), identity("ana", session="there")
OSLO, BERGEN = "Ana lives in Oslo with her two cats.", "Ana lives in Bergen with her two cats."
WISHES = ("Ana wants short answers.", "Ana works with Bo on berth 12.")
KEY = "user:ana"


async def lives(memory: Mnemic, model: LoopbackModel, text: str, *decided: Any, who: Identity = THERE) -> None:
    """A formation that keeps one fact and one reflection."""
    model.answer(FACTS, facts(fact(text, 1)))
    model.answer(DECISIONS, decisions(*decided))
    model.answer(REFLECTIONS, reflections(user=[reflection(f"Ana means what she says: {text}")], episode=f"So: {text}"))
    await say(memory, who, f"I say {text}", "Well.")


async def formed(memory: Mnemic, model: LoopbackModel, text: str) -> None:
    """A formation that keeps one fact."""
    model.answer(FACTS, facts(fact(text, 1)))
    model.answer(DECISIONS, decisions())
    model.answer(REFLECTIONS, reflections())
    await say(memory, THERE, text, "Well.")


async def answer(memory: Mnemic) -> tuple[str, list[tuple[object, str]]]:
    """All that a recall says, and what is found; to somebody without a session, whom nothing is announced to."""
    found = await memory.query(identity("ana"), "Where does Ana live with her cats?", top_k=20)
    return await memory.recall_text(identity("ana"), "Do you remember where I live?"), [
        (one.item_id, one.content) for one in found
    ]


async def test_an_undone_formation_takes_its_answer_along_and_a_redo_brings_it_again(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await lives(memory, model, OSLO, who=HERE)
    before = await answer(memory)
    await lives(memory, model, BERGEN, decision(1, "DELETE", 1, text=BERGEN))
    after = await answer(memory)
    assert OSLO in before[0]
    assert BERGEN in after[0]

    undone = await memory.undo(THERE, op_ids(superuser)[-1])
    assert await answer(memory) == before
    assert undone.op_id
    assert await memory.form(THERE) == []  # its messages stay settled
    await memory.undo(THERE, undone.op_id)
    assert await answer(memory) == after


@pytest.mark.parametrize("administers", [False, True])
async def test_all_that_a_session_formed_since_a_moment_is_undone_as_one(
    memory: Mnemic,
    administration: Administration,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    administers: bool,
) -> None:
    async def undo(session: str, moment: datetime) -> object:
        if administers:
            return (await administration.undo_session("harbor", session, moment)).op_id
        return (await memory.undo_session(identity("ana", session=session), session, moment)).op_id

    await lives(memory, model, OSLO)
    since = datetime.now(UTC)
    await lives(memory, model, "Ana paints boats.", who=HERE)
    before = await answer(memory)
    await lives(memory, model, BERGEN, decision(1, "DELETE", 1, text=BERGEN))
    await formed(memory, model, "Ana sails to Ryd in May.")
    assert await answer(memory) != before
    with pytest.raises(UnknownOperationError):
        await undo("no such session", since)
    with pytest.raises(UnknownOperationError):
        await undo("there", datetime.now(UTC))
    done = await undo("there", since)

    assert await answer(memory) == before
    assert op_ids(superuser)[-1] == done


async def test_other_sessions_are_told_of_a_rollback(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async def signs() -> set[str]:
        recalled = await memory.recall(HERE)
        await memory.observe(HERE, [], revision=recalled["revision"])
        return {update["sign"] for update in recalled["updates"]}

    await signs()
    await formed(memory, model, OSLO)
    assert await signs() == {"+created"}

    undone = await memory.undo(THERE, op_ids(superuser)[-1])
    assert "- ~soft-deleted: [Projects]" in (await memory.recall(HERE))["context"]
    assert await signs() == {"~soft-deleted"}
    assert undone.op_id
    await memory.undo(THERE, undone.op_id)
    assert f"- ⟲restored: [Projects] {OSLO}" in (await memory.recall(HERE))["context"]
    assert await signs() == {"⟲restored"}
    assert await signs() == set()


async def test_words_that_were_not_kept_do_not_come_back(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    def words() -> list[str]:
        rows = superuser.execute("select content from mnemic.messages where content is not null order by content")
        return [content for (content,) in rows.fetchall()]

    await memory.configure_agent(HERE, keep_messages="sources")
    await formed(memory, model, OSLO)
    superuser.execute("update mnemic.messages set content = null where forget_at is not null")  # as days later
    assert words() == [OSLO]
    undone = await memory.undo(THERE, op_ids(superuser)[-1])
    assert await memory.query(identity("ana"), "Oslo") == []
    assert words() == [OSLO]
    assert undone.op_id
    await memory.undo(THERE, undone.op_id)
    assert OSLO in [one.content for one in await memory.query(identity("ana"), "Oslo")]
