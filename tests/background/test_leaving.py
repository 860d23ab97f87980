"""A worker that is stopped at any moment of its start ends soon."""

import asyncio
from contextlib import AsyncExitStack
from time import monotonic

import pytest

from mnemic.service.worker import background_work
from tests.background.working import SHORT
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory
from tests.support.server import Clone


@pytest.mark.thorough
async def test_a_worker_that_is_stopped_as_it_gets_a_connection_ends_soon(
    clean_db: Clone, model: LoopbackModel
) -> None:
    async with scripted_memory(clean_db, model, pool_size=1) as memory:
        for steps in range(30):
            async with AsyncExitStack() as worker:
                async with memory.resources.database.catalog():
                    await worker.enter_async_context(background_work(memory.resources, memory.graphs, SHORT))
                    await asyncio.sleep(0.15)  # until it waits for the only connection
                for _ in range(steps):
                    await asyncio.sleep(0)
                began = monotonic()
            assert monotonic() - began < SHORT.stop + 4  # a lost stop takes 16 seconds
