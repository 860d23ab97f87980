"""The service with a model that drafts hostile memories, opened once a module; each test finds the database empty."""

from collections.abc import AsyncIterator

import pytest_asyncio

from mnemic.service.memory import Mnemic
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def model() -> AsyncIterator[LoopbackModel]:
    """The model behind `memory`."""
    with scripted_model() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def memory(worker_db: Clone, model: LoopbackModel) -> AsyncIterator[Mnemic]:
    """The service with that model; no scope is consolidated before 100 reflections."""
    thresholds = {"user_threshold": 100, "group_threshold": 100, "agent_threshold": 100}
    async with scripted_memory(worker_db, model, **thresholds) as opened:
        yield opened
