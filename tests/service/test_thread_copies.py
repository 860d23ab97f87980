"""Threads that move in from memory and from plain Postgres tables: nothing is lost, and twice is once."""

from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command

from mnemic import Mnemic
from mnemic.state.errors import InvalidInputError
from tests.support.savers import Savers, both_savers
from tests.support.server import Clone
from tests.support.threads import answering, asking, at, counts, everything, misplaced, said, words
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
BO = identity("bo", session="s1")


async def history(host: Any, thread_id: str) -> list[Any]:
    return [
        (item.values, item.next, item.config["configurable"]["checkpoint_id"], item.metadata["step"], item.tasks)
        async for item in host.aget_state_history(at(thread_id))
    ]


async def lived(source: BaseCheckpointSaver[Any], worked: list[str]) -> None:
    """A thread with some turns and a question that waits in a subgraph, and a short one."""
    for text in ("one", "two"):
        await answering(source).ainvoke(said(text), at("t"))
    await asking(source, worked).ainvoke(said("three"), at("t"))
    await answering(source).ainvoke(said("other"), at("u"))


@both_savers
async def test_a_thread_moves_in_whole_and_goes_on(
    memory: Mnemic, clean_db: Clone, superuser: psycopg.Connection, savers: Savers
) -> None:
    worked: list[str] = []
    async with savers(clean_db) as (source, _):
        await lived(source, worked)
        ours = memory.checkpointer(ANA)
        assert await memory.copy_threads(source, ANA) == 15
        for thread in ("t", "u"):
            saved = await everything(source, thread)
            assert await everything(ours, thread) == saved
            assert await history(asking(ours), thread) == await history(asking(source), thread)
        namespaces = {row[0] for row in await everything(ours, "t")}
        assert len(namespaces) == 2
        before = counts(superuser)
        assert await memory.copy_threads(source, ANA) == 15
        assert counts(superuser) == before
        assert misplaced(superuser) == []

        results = [await asking(saver, worked).ainvoke(Command(resume="yes"), at("t")) for saver in (source, ours)]
    assert [words(result) for result in results] == [[*WORDS, "Asked: yes"]] * 2
    assert worked == ["worked"]  # before it moved, and by neither again


WORDS = [word for text in ("one", "two", "three") for word in (text, f"Heard {text}")]


@both_savers
async def test_what_was_told_after_the_move_stays_when_it_is_done_again(
    memory: Mnemic, clean_db: Clone, savers: Savers
) -> None:
    async with savers(clean_db) as (source, _):
        await lived(source, [])
        await memory.copy_threads(source, ANA, ["u"])
        host = answering(memory.checkpointer(ANA))
        await host.ainvoke(said("since"), at("u"))
        assert await memory.copy_threads(source, ANA, ["u"]) == 3
    assert [item.thread_id for item in await memory.threads(ANA)] == ["u"]
    assert words((await host.aget_state(at("u"))).values) == ["other", "Heard other", "since", "Heard since"]


async def test_a_thread_moves_to_the_one_it_is_said_to_be(memory: Mnemic) -> None:
    await answering(memory.checkpointer(ANA)).ainvoke(said("one"), at("t"))
    assert await memory.copy_threads(memory.checkpointer(ANA), BO, ["t", "no such thread"]) == 3
    assert words((await answering(memory.checkpointer(BO)).aget_state(at("t"))).values) == ["one", "Heard one"]
    assert [item.thread_id for item in await memory.threads(BO)] == ["t"]
    assert await memory.copy_threads(memory.checkpointer(BO), ANA) == 3


@pytest.mark.parametrize("ids", [[], [7], "t", {"t": 1}])
async def test_ids_that_cannot_be_used_are_refused(memory: Mnemic, ids: Any) -> None:
    with pytest.raises(InvalidInputError):
        await memory.copy_threads(memory.checkpointer(ANA), BO, ids)
