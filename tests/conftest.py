"""Fixtures that every test may use: databases of a throw-away Postgres server, and an environment without settings."""

import os
import shutil
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from mnemic.storage.database import Database
from tests.support.server import (
    RUN_VARIABLE,
    Clone,
    Server,
    cloned,
    ensure_template,
    run_directory,
    running_server,
    wipe,
)

# examples share the databases of their test and use agents of their own, so a fixture need not be made for each
hypothesis_settings.register_profile(
    "mnemic", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
hypothesis_settings.register_profile("quick", hypothesis_settings.get_profile("mnemic"), max_examples=25)

#: Cases that a test with a database has in an ordinary run.
ORDINARY_CASES = 2


def pytest_configure(config: pytest.Config) -> None:
    hypothesis_settings.load_profile("quick" if "not thorough" in config.getoption("markexpr") else "mnemic")
    os.environ.setdefault(RUN_VARIABLE, uuid.uuid4().hex[:12])
    # a shell starts what runs in its background with Ctrl-C ignored, and the programs that tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before the run leaves out the thorough tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but two cases of each test with a database to the thorough run."""
    cases: Counter[tuple[str, str]] = Counter()
    for item in sorted(items, key=lambda item: item.nodeid):  # the items may be shuffled
        if not isinstance(item, pytest.Function) or "server" not in item.fixturenames:
            continue
        if item.get_closest_marker("thorough") or item.get_closest_marker("slow"):
            continue
        test = (str(item.path), item.originalname)
        cases[test] += 1
        if cases[test] > ORDINARY_CASES:
            item.add_marker(pytest.mark.thorough)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that started the workers is the last to leave
        shutil.rmtree(run_directory(), ignore_errors=True)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own settings, keys or tracing reaches a test."""
    for name in [name for name in os.environ if name.startswith("MNEMIC_") or name == "OPENAI_API_KEY"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MNEMIC_BACKGROUND", "false")  # tests of the background turn it on
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The throw-away server that all workers of this run share."""
    with running_server() as running:
        yield running


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """Name of the database that the project's own migrations made."""
    return ensure_template(server)


@pytest.fixture(scope="session")
def worker_db(server: Server, template: str) -> Iterator[Clone]:
    """This worker's database; use `clean_db`, which is empty."""
    with cloned(server, template) as clone:
        yield clone


@pytest.fixture(scope="session")
def worker_superuser(worker_db: Clone) -> Iterator[psycopg.Connection]:
    """One superuser connection per worker; use `superuser`."""
    with worker_db.as_superuser() as connection:
        yield connection


@pytest.fixture
def clean_db(worker_db: Clone, worker_superuser: psycopg.Connection) -> Iterator[Clone]:
    """The worker's database without a row: for tests that open a pool or a process of their own."""
    wipe(worker_superuser)
    yield worker_db
    wipe(worker_superuser)


@pytest.fixture
async def db(clean_db: Clone) -> AsyncIterator[Database]:
    """The service's pool on the worker's database without a row."""
    async with clean_db.database() as database:
        yield database


@pytest.fixture
def superuser(clean_db: Clone, worker_superuser: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """A superuser on the database of `db`: for set-up and for looking behind the policies, never for the act tested."""
    yield worker_superuser
    worker_superuser.execute("reset all")  # such as the triggers that a test has switched off


@pytest.fixture
def fresh_db(server: Server, template: str) -> Iterator[Clone]:
    """A database of the test's own, for DDL, several processes and many rows (20 to 50 ms)."""
    with cloned(server, template) as clone:
        yield clone


@pytest.fixture
def empty_db(server: Server, template: str) -> Iterator[Clone]:
    """A database that was never migrated, on a server whose roles exist."""
    with cloned(server, None) as clone:
        yield clone
