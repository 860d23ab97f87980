"""Many recalls at once: they queue, each gets its memory, and what is not reached in time says `busy`."""

import asyncio
from collections import Counter
from contextlib import nullcontext

import pytest

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
FEW = {"pool_size": 2, "recall_timeout_seconds": 1}


async def recall_at_once(memory: Mnemic, many: int) -> Counter[tuple[str | None, bool]]:
    """What so many recalls went without, and whether they had the memory."""
    questions = [f"Where are the bees that I keep? Berth {number}?" for number in range(many)]
    contexts = await asyncio.gather(*(memory.recall(ANA, question, search="always") for question in questions))
    return Counter((context.degraded, BEES in text_of(context.context)) for context in contexts)


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


async def test_who_is_not_reached_is_told_that_mnemic_is_busy(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worsen(monkeypatch, search, search=SLOWLY)
    impatient = {**FEW, "pool_timeout_seconds": 0.5}
    async with Mnemic.open(
        database_url=fresh_db.service_dsn, embedder="hash", settings=Settings(**impatient)
    ) as memory:
        await remember_bees(memory)
        ends = await recall_at_once(memory, 16)
        assert {None, "busy"} == {lacks for lacks, _ in ends}
        assert "goes without memory: Too many recalls" in caplog.text
        searches = await asyncio.gather(*(memory.query(ANA, "bees") for _ in range(16)), return_exceptions=True)
        assert {list, BusyError} == set(map(type, searches))
        assert (await memory.recall(ANA, "bees")).degraded is None


async def test_where_the_database_is_away_nobody_queues_for_it(crashing: CrashingServer) -> None:
    patience = {**FEW, "pool_timeout_seconds": 4}
    async with Mnemic.open(
        database_url=crashing.clone.service_dsn, embedder="hash", settings=Settings(**patience)
    ) as memory:
        await remember_bees(memory)
        crashing.kill()
        assert {lacks for lacks, _ in await recall_at_once(memory, 16)} == {"no_memory"}
