"""Workers, and the model they ask, for every test of faults."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.faults.jobs import script_jobs
from tests.faults.processes import CrashingServer, StartWorker, Worker
from tests.faults.strikes import Finish, Scene, Strike, Survive, TrappedModel, repeat
from tests.support.scripted import scripted_settings
from tests.support.server import Clone, fast_directory, wipe
from tests.support.worlds import expire_leases


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
            made = scripted_settings(clean_db, model, **settings)
            return workers.enter_context(Worker(made, sabotage))

        yield start


@pytest.fixture
def survive(start_worker: StartWorker, model: TrappedModel, clean_db: Clone, superuser: psycopg.Connection) -> Survive:
    """One worker dies of a strike; others, one or two at once, do its work again. What `look` saw in between."""

    def run(
        strike: Strike,
        *finishes: Finish,
        settle: Callable[[Worker], object],
        others: int = 1,
        sabotage: Mapping[str, str] | None = None,
        look: Callable[[], Any] = lambda: None,
        **settings: Any,
    ) -> Any:
        victim = start_worker(sabotage=sabotage, lock_timeout_seconds=60, **settings)
        successors = [start_worker(**settings) for _ in range(others)]
        settle(successors[0])
        strike(Scene(victim, model, clean_db, superuser))
        seen = look()
        expire_leases(superuser)
        for command, is_done in finishes:
            repeat(successors, command, until=partial(is_done, superuser))
        return seen

    return run


@pytest.fixture(scope="session")
def own_server() -> Iterator[CrashingServer]:
    """A durable server that a test may kill; all tests of this process share it, so use `crashing`."""
    with tempfile.TemporaryDirectory(dir=fast_directory(), prefix="mnemic-crash-") as directory:
        server = CrashingServer(Path(directory))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def crashing(own_server: CrashingServer) -> CrashingServer:
    """A durable server that the test may kill, without a row."""
    own_server.restart()
    with own_server.clone.as_superuser() as superuser:
        wipe(superuser)
    return own_server
