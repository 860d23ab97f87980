"""Fixtures for tests that need the whole service; a `conftest.py` imports them by name."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mnemic.service.memory import Mnemic
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    """The scripted model behind `memory`."""
    with scripted_model() as running:
        yield running


@pytest.fixture
async def memory(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Mnemic]:
    """The service on the worker's database without a row."""
    async with scripted_memory(clean_db, model) as opened:
        yield opened
