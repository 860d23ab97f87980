"""While the memory works, the event loop goes on: no callback keeps its thread for more than 50 ms.

That number is a promise to hosts, whose other requests wait for as long. It is held against the CPU time of the loop's
thread alone, which is the work that stands on the loop: a busy machine does not make it longer, so this is no race.
"""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from mnemic import Mnemic
from mnemic.memory.runtime.resources import Resources, open_resources
from mnemic.state.settings import Settings
from mnemic.storage import transaction
from tests.support import worlds
from tests.support.scripted import turns
from tests.support.server import Clone
from tests.support.worlds import identity, remember


@asynccontextmanager
async def busy_callbacks() -> AsyncIterator[list[tuple[float, str]]]:
    """Measures every callback of the running loop until the block ends: seconds, and which it was.

    In CPU time of the loop's thread, for wall time would tell of the machine: neither other processes nor the threads
    beside the loop count. The garbage collector does not either: it works for whoever allocates next.
    """
    measures: list[tuple[float, str]] = []
    thread, run, collecting = threading.get_ident(), asyncio.Handle._run, 0.0

    def measured(handle: asyncio.Handle) -> None:
        if threading.get_ident() != thread:
            run(handle)
            return
        name, before, begun = repr(handle), collecting, time.thread_time()
        run(handle)
        measures.append((time.thread_time() - begun - (collecting - before), name))

    def collected(phase: str, _: dict[str, int]) -> None:
        nonlocal collecting
        if threading.get_ident() == thread:
            collecting += time.thread_time() if phase == "stop" else -time.thread_time()

    asyncio.Handle._run = measured  # type: ignore[method-assign,assignment]  # its owner is its only argument
    gc.callbacks.append(collected)
    try:
        await asyncio.sleep(0)  # the callback that began to watch is not watched from its beginning
        yield measures
        await asyncio.sleep(0)
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        gc.callbacks.remove(collected)


MOST = 0.050
ANA = identity("ana", session="s1")
#: 50 of these make a batch.
SAYING = (
    "I live in Lisbon with my sister Rita, who works at the harbour. I like project {0} and always want short answers. "
    "We talked about the weather for a long time, and I decided to buy boat number {0} on 3 March. My dog is called Bo."
)
BOOK = "I like the sea and the harbour. " * 1000
QUESTION = "Do you remember where Rita and Boris live?"
Work = Callable[[Mnemic], Awaitable[object]]


@pytest.fixture
async def resources(clean_db: Clone) -> AsyncIterator[Resources]:
    async with open_resources(Settings(database_url=clean_db.service_dsn, embedder="hash")) as opened:
        yield opened


@pytest.fixture
async def memory(resources: Resources) -> Mnemic:
    """The service with its offline rules, used once: what is imported at first use comes once in a process."""
    opened, other = Mnemic(resources), identity("warm", session="up")
    await opened.observe(other, talk(4))
    await opened.form(other)
    await opened.recall(other, QUESTION, search="always")
    return opened


def talk(count: int) -> list[dict[str, Any]]:
    return turns(*(SAYING.format(number) for number in range(count)))


async def busiest(memory: Mnemic, work: Work) -> tuple[float, str]:
    """The callback that kept the loop's thread at work for longest."""
    async with busy_callbacks() as measures:
        await work(memory)
    return max(measures)


async def take_in(memory: Mnemic, messages: list[dict[str, Any]], *, forms: bool) -> None:
    await memory.observe(ANA, messages)
    if forms:
        await memory.form(ANA)


@pytest.mark.parametrize(
    ("messages", "forms"),
    [
        (talk(5000), False),
        (turns(*(f"{number} {BOOK}" for number in range(200))), False),
        (talk(100), True),
        (turns(BOOK, BOOK, "Well.", "Well."), True),
    ],
    ids=["observe talk", "observe books", "form talk", "form books"],
)
async def test_taking_in_a_conversation_leaves_the_loop_to_others(
    memory: Mnemic, messages: list[dict[str, Any]], forms: bool
) -> None:
    assert await busiest(memory, partial(take_in, messages=messages, forms=forms)) < (MOST,)


@pytest.mark.thorough
async def test_recalling_and_reading_leave_the_loop_to_others(resources: Resources, memory: Mnemic) -> None:
    for start in range(0, 2000, 500):  # a standing part that no refinement has been at
        kept = [worlds.memory(SAYING.format(number), kind="core") for number in range(start, start + 500)]
        await remember(resources.database, ANA, *kept)
    await memory.observe(ANA, turns(*(f"{number} {BOOK}" for number in range(10))))
    await memory.form(ANA)
    for work in (
        lambda _: memory.recall(ANA, QUESTION, search="always", budget_tokens=8192),
        lambda _: memory.query(ANA, "Who likes the sea and the harbour?", top_k=100),
        lambda _: memory.memories(ANA, limit=100_000),
    ):
        assert await busiest(memory, work) < (MOST,)


@pytest.mark.slow
async def test_making_a_memory_smaller_leaves_the_loop_to_others(resources: Resources, memory: Mnemic) -> None:
    for number in range(100):
        thought = worlds.memory(f"Ana plans trip {number} to Oslo.", kind="reflection")
        await remember(resources.database, ANA, worlds.memory(SAYING.format(number), kind="core"), thought)
    for work in (
        lambda _: memory.admin.consolidate(ANA, "user:ana", force=True),
        lambda _: memory.refine(ANA, "user:ana", force=True),
    ):
        assert await busiest(memory, work) < (MOST,)


@pytest.mark.thorough
async def test_many_rows_leave_the_loop_to_others(
    resources: Resources, memory: Mnemic, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(_: Mnemic) -> None:
        async with resources.database.transaction(ANA) as tx:
            rows = await tx.rows(dict, "select n, n::text as text from generate_series(1, 300000) as n", {})
        assert len(rows) == 300_000

    assert await busiest(memory, read) < (MOST,)
    monkeypatch.setattr(transaction, "_ROWS_AT_ONCE", 1_000_000)
    assert await busiest(memory, read) > (MOST,)


@pytest.mark.thorough
@pytest.mark.parametrize(("count", "forms"), [(20_000, False), (100, True)])
async def test_without_threads_it_is_caught(
    memory: Mnemic, count: int, forms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(_: ThreadPoolExecutor, call: Callable[[], object]) -> Future[object]:
        done: Future[object] = Future()
        done.set_result(call())
        return done

    monkeypatch.setattr(ThreadPoolExecutor, "submit", at_once)
    assert await busiest(memory, partial(take_in, messages=talk(count), forms=forms)) > (MOST,)
