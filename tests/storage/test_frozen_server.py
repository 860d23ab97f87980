"""A server that is frozen, or behind a network that swallows everything, keeps nobody waiting for ever."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from psycopg.conninfo import make_conninfo

from mnemic.service.memory import Mnemic
from mnemic.state.errors import DatabaseUnavailableError
from mnemic.state.settings import Settings
from mnemic.storage import connection as connection_module
from mnemic.storage import scopes
from mnemic.storage.connection import connection_options
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone
from tests.support.worlds import identity

ME = identity("ana", session="s1")
LIMITS = {"recall_timeout_seconds": 0.1, "statement_timeout_seconds": 0.1, "pool_size": 1}
#: Only to end a test that hangs.
FOREVER = 30


@contextmanager
def frozen(clone: Clone) -> Iterator[None]:
    """Every server process that serves the service's role on this database stands still until the block ends."""
    with clone.as_superuser() as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity where usename = 'mnemic_app' and datname = current_database()"
        ).fetchall()
    pids = [pid for (pid,) in rows]
    assert pids
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
async def memory(fresh_db: Clone) -> AsyncIterator[Mnemic]:
    with scripted_model() as model:
        async with scripted_memory(fresh_db, model, **LIMITS) as memory:
            yield memory


async def test_a_recall_on_a_frozen_server_goes_without_memory(memory: Mnemic, fresh_db: Clone) -> None:
    assert (await memory.recall(ME, "hello"))["degraded"] is None
    with frozen(fresh_db):
        async with asyncio.timeout(FOREVER):
            assert (await memory.recall(ME, "hello"))["degraded"] == "no_memory"
            while (await memory.recall(ME, "hello"))["degraded"]:
                pass  # the pool has another connection, though the old one is frozen still
    assert (await memory.recall(ME, "hello"))["degraded"] is None


@pytest.mark.thorough
async def test_with_no_limit_of_our_own_it_would_hang(
    memory: Mnemic, fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "ANSWER_SECONDS", 600)
    assert (await memory.recall(ME, "hello"))["degraded"] is None
    with frozen(fresh_db):
        recall = asyncio.create_task(memory.recall(ME, "hello"))
        done, _ = await asyncio.wait([recall], timeout=2)
        assert not done
    assert (await recall)["degraded"] is None


@pytest.mark.parametrize("last", [False, True], ids=["in a statement", "at the commit"])
async def test_a_write_on_a_server_that_freezes_is_an_error_of_ours(fresh_db: Clone, last: bool) -> None:
    async with fresh_db.database(Settings(**LIMITS)) as db:
        with ExitStack() as ending:

            async def act(scoped: ScopedTransaction) -> None:
                await scopes.configure_agent(scoped, {"rag": False})
                ending.enter_context(frozen(fresh_db))
                if not last:
                    await scopes.agent_settings(scoped)

            async with asyncio.timeout(FOREVER):
                with pytest.raises(DatabaseUnavailableError, match="does not answer"):
                    await db.write(ME, act)
        assert await written(db) in (({}, {"rag": False}) if last else ({},))


async def written(db: Database) -> dict[str, object]:
    async with db.scoped(ME) as scoped:
        return await scopes.agent_settings(scoped)


def test_what_a_dsn_says_of_the_network_is_not_overruled() -> None:
    dsn = make_conninfo(host="db", connect_timeout=9, keepalives_idle=7)
    options = connection_options(dsn)
    assert {"connect_timeout", "keepalives_idle"} & options.keys() == set()
    assert {"tcp_user_timeout", "keepalives_interval"} <= options.keys()


@pytest.mark.thorough
async def test_a_process_that_was_busy_itself_reads_what_has_come(fresh_db: Clone) -> None:
    settings = Settings(recall_timeout_seconds=0.1)
    async with fresh_db.database(settings) as database, database.scoped(ME, for_recall=True) as scoped:
        asked = asyncio.create_task(scoped.execute("select 1", {}))
        await asyncio.sleep(0)  # the question goes out, and its limit begins
        time.sleep(0.1 + connection_module.ANSWER_SECONDS + 0.3)  # noqa: ASYNC251 - the host blocks its event loop
        assert await (await asked).fetchone() == (1,)
