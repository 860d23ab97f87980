"""Fixtures for tests that need the whole service; a `conftest.py` imports them by name."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from mnemic.operations.run.resources import Resources
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.storage import opening
from mnemic.storage.database import Database
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_model, scripted_resources
from tests.support.server import Clone

#: Databases of this process that the doctor has found sound.
_SOUND: set[str] = set()


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    """The scripted model behind `memory`."""
    with scripted_model() as running:
        yield running


@pytest.fixture
async def resources(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Resources]:
    """What `memory` works with, for tests that store what it is then asked for."""
    async with AsyncExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            # no test changes the set-up of its worker's database: once is enough for the doctor to look at all of it
            if clean_db.name in _SOUND:
                patch.setattr(opening, "require_sound", _is_sound)
            opened = await stack.enter_async_context(scripted_resources(clean_db, model))
        _SOUND.add(clean_db.name)
        yield opened


async def _is_sound(_: Database) -> None:
    return


@pytest.fixture
def memory(resources: Resources) -> Mnemic:
    """The service on these resources, and so on the worker's database without a row."""
    return Mnemic(resources)


@pytest.fixture
async def administration(clean_db: Clone) -> AsyncIterator[Administration]:
    """An administrator of the same database."""
    async with Administration.open(admin_url=clean_db.administrator_dsn) as opened:
        yield opened
