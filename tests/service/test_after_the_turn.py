"""What is left of a turn whose observe goes wrong, and of work in the background that does."""

import asyncio
import gc
import logging
from typing import Any

import psycopg
import pytest
from langchain_core.messages import HumanMessage

from mnemic.operations.run import background as run_background
from mnemic.operations.run.background import Background, background
from mnemic.operations.turn import observe_turn
from mnemic.service.memory import Mnemic
from tests.support.worlds import identity

ANA = identity("ana", session="s1")


async def test_a_revision_that_is_refused_costs_no_message(memory: Mnemic, superuser: psycopg.Connection) -> None:
    await observe_turn(memory.resources, ANA, [HumanMessage("Keep me.", id="1")], revision=10**6)
    assert superuser.execute("select content from mnemic.messages").fetchall() == [("Keep me.",)]


NOBODYS = {"role": "user", "content": "Who said this?"}


async def test_what_cannot_be_stored_is_left_out_and_the_rest_is_not(
    memory: Mnemic, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = identity(None, session="s1")
    ours = {"role": "user", "content": "Keep me.", "user": "ana"}
    said: list[Any] = [NOBODYS, ours, 7, {"role": "assistant", "content": "I do."}]
    await observe_turn(memory.resources, nobody, said, revision=10**6, several_speakers=True)
    rows = superuser.execute("select content from mnemic.messages order by place").fetchall()
    assert rows == [("Keep me.",), ("I do.",)]
    assert "messages that cannot be stored are left out: 2, such as message 1: it is a user's" in caplog.text
    assert "Who said" not in caplog.text


async def test_a_picture_behind_words_that_can_be_stored_costs_none_of_them(
    memory: Mnemic, superuser: psycopg.Connection
) -> None:
    picture = {"role": "user", "content": [{"type": "image_url"}], "user": "ana"}
    said: list[Any] = [NOBODYS, {"role": "user", "content": "Keep me.", "user": "ana"}, picture]
    await observe_turn(memory.resources, identity(None, session="s1"), said, revision=None, several_speakers=True)
    assert superuser.execute("select content from mnemic.messages").fetchall() == [("Keep me.",)]


async def test_an_answer_to_words_that_cannot_be_stored_is_not_stored_alone(
    memory: Mnemic, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    said = [NOBODYS, {"role": "assistant", "content": "You did."}]
    await observe_turn(memory.resources, identity(None, session="s1"), said, revision=None)
    assert superuser.execute("select content from mnemic.messages").fetchall() == []
    assert "the messages of this turn cannot be stored: message 1: it is a user's" in caplog.text


async def test_work_that_ends_with_an_unknown_error_is_told_of_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unseen: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: unseen.append(problem["message"]))

    async def fail() -> None:
        raise RuntimeError("Ana is in debt")

    async with background() as work:
        work.begin("work", fail)
    gc.collect()
    assert (unseen, "RuntimeError" in caplog.text, "debt" in caplog.text) == ([], True, False)
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


async def test_no_more_works_run_at_once_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_background, "MOST_AT_ONCE", 3)
    running, most = 0, 0

    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with background() as work:
        for number in range(20):
            work.begin(number, count)
    assert (running, most) == (0, 3)


async def test_work_asked_for_on_another_loop_is_done_on_the_one_that_opened_it() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    async def elsewhere(work: Background) -> None:
        work.begin("work", note)
        await work.finish("work")

    async with background() as work:
        await asyncio.wait_for(asyncio.to_thread(asyncio.run, elsewhere(work)), 5)
    assert loops == [asyncio.get_running_loop()]
