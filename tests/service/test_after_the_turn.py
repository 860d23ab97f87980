"""What is left of a turn whose observe goes wrong, and of work in the background that does."""

import asyncio
import gc
import logging
from typing import Any

import psycopg
import pytest

from mnemic.operations.run import resources as run_resources
from mnemic.operations.run.resources import Background, background
from mnemic.operations.turn import observe_turn
from mnemic.service.memory import Mnemic
from tests.support.worlds import identity

NOBODY = identity(None, session="s1")
NOBODYS = {"role": "user", "content": "Who said this?"}
OURS = {"role": "user", "content": "Keep me.", "user": "ana"}
PICTURE = {"role": "user", "content": [{"type": "image_url"}], "user": "ana"}
ANSWER = {"role": "assistant", "content": "I do."}


@pytest.mark.parametrize(
    ("messages", "revision", "left", "warning"),
    [
        pytest.param([OURS], 10**6, ["Keep me."], "", id="a revision that is refused"),
        pytest.param(
            [NOBODYS, OURS, 7, ANSWER],
            10**6,
            ["Keep me.", "I do."],
            "messages that cannot be stored are left out: 2, such as message 1: it is a user's",
            id="some cannot be stored",
        ),
        pytest.param([NOBODYS, OURS, PICTURE], None, ["Keep me."], "", id="a picture behind them"),
        pytest.param(
            [NOBODYS, ANSWER],
            None,
            [],
            "the messages of this turn cannot be stored: message 1: it is a user's",
            id="an answer alone",
        ),
    ],
)
async def test_what_cannot_be_stored_is_left_out_and_the_rest_is_not(
    memory: Mnemic,
    superuser: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    messages: list[Any],
    revision: int | None,
    left: list[str],
    warning: str,
) -> None:
    await observe_turn(memory.resources, NOBODY, messages, revision=revision, several_speakers=True)
    rows = superuser.execute("select content from mnemic.messages order by place").fetchall()
    assert [content for (content,) in rows] == left
    assert warning in caplog.text
    assert "Who said" not in caplog.text


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
    monkeypatch.setattr(run_resources, "MOST_AT_ONCE", 3)
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
