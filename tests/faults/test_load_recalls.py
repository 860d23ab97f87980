"""Many recalls at once: they queue, each gets its memory, and what is not reached in time says `busy`."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from mnemic.service.memory import Mnemic
from mnemic.state.errors import BusyError
from mnemic.state.settings import Settings
from mnemic.storage import search
from mnemic.storage.connection import RecallQueue
from tests.faults.processes import CrashingServer
from tests.support.mutating import worsen
from tests.support.scripted import turns
from tests.support.server import Clone
from tests.support.worlds import identity, text_of

pytestmark = pytest.mark.thorough

ANA = identity("ana", session="s1")
BEES = "I keep bees on the north quay."
#: A fifth of a second for each, on one place.
SLOWLY = ("from unnest(tsvector_to_array", "from pg_sleep(0.2), unnest(tsvector_to_array")
#: The search waits for a lock.
AT_THE_GATE = ("from unnest(tsvector_to_array", "from pg_advisory_xact_lock_shared(7), unnest(tsvector_to_array")
FEW = {"pool_size": 2, "recall_timeout_seconds": 1}


async def recalled(memory: Mnemic, number: int) -> tuple[str | None, bool]:
    """What a recall went without, and whether it had the memory."""
    recall = await memory.recall(ANA, f"Where are the bees that I keep? Berth {number}?", search="always")
    return recall.degraded, BEES in text_of(recall.context)


async def recall_at_once(memory: Mnemic, many: int) -> Counter[tuple[str | None, bool]]:
    return Counter(await asyncio.gather(*(recalled(memory, number) for number in range(many))))


async def remember_bees(memory: Mnemic) -> None:
    await memory.observe(ANA, turns(BEES))
    await memory.form(ANA)


@pytest.mark.parametrize("queued", [True, False], ids=["queued", "control"])
async def test_the_wait_behind_others_is_not_the_databases_failure(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, queued: bool
) -> None:
    if not queued:
        monkeypatch.setattr(RecallQueue, "turn", lambda _: nullcontext())
        monkeypatch.setattr(RecallQueue, "has_served_since", lambda *_: False)
    worsen(monkeypatch, search, search=SLOWLY)
    async with Mnemic.open(database_url=fresh_db.service_dsn, embedder="hash", settings=Settings(**FEW)) as memory:
        await remember_bees(memory)
        ends = await recall_at_once(memory, 16)
    assert (ends == {(None, True): 16}) == queued
    assert bool(ends["no_memory", False]) != queued


async def behind_the_first(gate: psycopg.Connection, calls: Iterable[Coroutine[Any, Any, object]]) -> list[object]:
    """Keep the first search in the database until all other calls have ended, and return what became of all."""
    tasks = [asyncio.create_task(call) for call in calls]
    gate.execute("select pg_advisory_lock(7)")
    running = {*tasks}
    while len(running) > 1:
        _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    gate.execute("select pg_advisory_unlock(7)")
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_is_not_reached_is_told_that_mnemic_is_busy(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worsen(monkeypatch, search, search=AT_THE_GATE)
    settings = Settings(pool_size=2, pool_timeout_seconds=2, recall_timeout_seconds=60, lock_timeout_seconds=60)
    # the vector of a question may take as long as a recall; one that this process computes, as long as the queue
    remote = DeterministicFakeEmbedding(size=384)
    async with Mnemic.open(database_url=fresh_db.service_dsn, embedder=remote, settings=settings) as memory:
        await remember_bees(memory)
        with fresh_db.as_superuser() as gate:
            ends = await behind_the_first(gate, (recalled(memory, number) for number in range(16)))
            searches = await behind_the_first(gate, (memory.query(ANA, "bees") for _ in range(16)))
        assert Counter(ends) == {(None, True): 1, ("busy", False): 15}
        assert "goes without memory: Too many recalls" in caplog.text
        assert Counter(map(type, searches)) == {list: 1, BusyError: 15}
        assert (await memory.recall(ANA, "bees")).degraded is None


async def test_where_the_database_is_away_nobody_queues_for_it(crashing: CrashingServer) -> None:
    patience = {**FEW, "pool_timeout_seconds": 4}
    async with Mnemic.open(
        database_url=crashing.clone.service_dsn, embedder="hash", settings=Settings(**patience)
    ) as memory:
        await remember_bees(memory)
        crashing.kill()
        assert {lacks for lacks, _ in await recall_at_once(memory, 16)} == {"no_memory"}
