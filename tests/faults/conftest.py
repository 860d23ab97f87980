"""Workers, and the model they ask, for every test of faults."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from tests.faults.jobs import script_jobs
from tests.faults.processes import CrashingServer, StartWorker, Worker, crashing_server
from tests.faults.strikes import TrappedModel
from tests.support.scripted import scripted_settings
from tests.support.server import Clone, wipe


@pytest.fixture
def model() -> Iterator[TrappedModel]:
    """The scripted model of all workers; it knows every job."""
    with TrappedModel() as running:
        script_jobs(running)
        yield running


@pytest.fixture
def start_worker(clean_db: Clone, model: TrappedModel) -> Iterator[StartWorker]:
    """Starts workers on the worker's database; they all end with the test."""
    with ExitStack() as workers:

        def start(*, sabotage: Mapping[str, str] | None = None, **settings: Any) -> Worker:
            made = scripted_settings(clean_db, model, **{"lease_seconds": 1, **settings})
            return workers.enter_context(Worker(made, sabotage))

        yield start


@pytest.fixture(scope="session")
def own_server() -> Iterator[CrashingServer]:
    """A durable server that a test may kill; all tests of this process share it, so use `crashing`."""
    with crashing_server() as server:
        yield server


@pytest.fixture
def crashing(own_server: CrashingServer) -> CrashingServer:
    """A durable server that the test may kill, without a row."""
    own_server.restart()
    with own_server.clone.as_superuser() as superuser:
        wipe(superuser)
    return own_server
