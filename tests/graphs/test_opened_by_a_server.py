"""The graphs a server loads by name open their resources at first use, again and again until that succeeds."""

import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from mnemic.graphs.formation import graph as formation
from mnemic.graphs.recall import graph as recall
from mnemic.operations.run import resources
from mnemic.state.errors import ConfigurationError, DatabaseSetupError, DatabaseUnavailableError, MnemicError
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")


@pytest.fixture
async def nobody(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The DSN of a port that nobody listens on, and a server's environment that names it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dsn = make_conninfo(host="127.0.0.1", port=taken.getsockname()[1], user="mnemic_app", dbname="mnemic")
        monkeypatch.setenv("MNEMIC_DATABASE_URL", dsn)
        monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
        monkeypatch.setenv("MNEMIC_POOL_TIMEOUT_SECONDS", "0.3")
        yield dsn
    await resources.close_environment()


async def ask() -> Any:
    return await recall.ainvoke({"question": "Do you remember me?"}, context=ANA)


async def test_a_recall_before_the_database_is_there_goes_without_memory(
    nobody: str, clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert (await ask())["degraded"] == "no_memory"
    with pytest.raises(DatabaseUnavailableError):  # nothing else goes on without it
        await formation.ainvoke({}, context=ANA)
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_POOL_TIMEOUT_SECONDS", "10")
    assert (await ask())["degraded"] is None


@pytest.mark.parametrize(
    ("variable", "error"), [("MNEMIC_RECALL_LIMIT", ConfigurationError), ("MNEMIC_DATABASE_URL", DatabaseSetupError)]
)
async def test_what_does_not_pass_by_itself_is_raised(
    nobody: str, empty_db: Clone, monkeypatch: pytest.MonkeyPatch, variable: str, error: type[MnemicError]
) -> None:
    monkeypatch.setenv("MNEMIC_POOL_TIMEOUT_SECONDS", "10")
    monkeypatch.setenv(variable, empty_db.service_dsn)
    with pytest.raises(error):
        await ask()
