"""What comes out of a transaction that failed: in time, an error of ours with Postgres' code and no word of any row."""

import asyncio
import os
import signal
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from mnemic.service.memory import Mnemic
from mnemic.state.errors import (
    ClosedError,
    ConcurrentChangeError,
    DatabaseSetupError,
    DatabaseUnavailableError,
    InvalidInputError,
    MnemicError,
    RefusedError,
)
from mnemic.state.settings import Settings
from mnemic.storage import connection as connection_module
from mnemic.storage import scopes
from mnemic.storage.connection import connection_options
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.scripted import scripted_memory, scripted_model
from tests.support.server import Clone
from tests.support.worlds import identity, remember

CANARY = "Mara has diabetes"
ME = identity(session=CANARY)

_SESSION = f"insert into mnemic.sessions (agent_id, session_id, last_activity_at) values ('harbor', '{CANARY}', now())"
_MESSAGE = (
    "insert into mnemic.messages (agent_id, id, session_id, scope_key, place, role, author, said_at)"
    f" values ('harbor', gen_random_uuid(), '{CANARY}', 'user:ana', 1, 'user', '{CANARY}', now())"
)
_RAISE = f"do $$ begin raise exception '{CANARY}' using errcode = '%s'; end $$"
#: Statements that fail, by the code Postgres gives them; to a superuser, whom no policy binds, each quotes the canary.
QUOTING = {
    "23514": (_MESSAGE.replace("'user',", "'nobody',"), InvalidInputError),
    "23503": (_MESSAGE, InvalidInputError),
    "23505": (f"{_SESSION}, ('harbor', '{CANARY}', now())", ConcurrentChangeError),
    "22P02": (f"select '{CANARY}'::uuid", InvalidInputError),
    "22007": (f"select '{CANARY}'::timestamptz", InvalidInputError),
    "42P01": (f'select * from "{CANARY}"', DatabaseSetupError),
    **{state: (_RAISE % state, kind) for state, kind in {
        "P0001": RefusedError, "42501": RefusedError, "40001": ConcurrentChangeError, "40P01": ConcurrentChangeError,
        "55P03": DatabaseUnavailableError, "57014": DatabaseUnavailableError, "25P03": DatabaseUnavailableError,
        "53200": DatabaseUnavailableError, "54000": InvalidInputError, "0A000": MnemicError, "XX001": MnemicError,
    }.items()},
}  # fmt: skip


def everything(error: BaseException) -> str:
    return "\n".join([str(error), repr(error), *traceback.format_exception(error)])


@pytest.mark.parametrize("state", QUOTING)
async def test_error_names_its_kind_and_quotes_no_data_as_the_server_would(
    db: Database, superuser: psycopg.Connection, state: str
) -> None:
    statement, kind = QUOTING[state]
    await remember(db, ME)
    with pytest.raises(psycopg.Error) as own, superuser.transaction():
        superuser.execute(statement)
    assert (own.value.sqlstate, CANARY in everything(own.value)) == (state, True)
    with pytest.raises(MnemicError) as caught:
        async with db.transaction(ME) as tx:
            await tx.execute(statement, {})

    assert type(caught.value) is kind
    assert (caught.value.sqlstate, f"(SQLSTATE {state})" in str(caught.value)) == (state, True)
    assert CANARY not in everything(caught.value)


@pytest.mark.parametrize("ending", ["\0", "\ud800"], ids=["nul", "lone surrogate"])
async def test_text_that_cannot_be_sent_is_invalid_input(db: Database, ending: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be stored") as caught:
        async with db.transaction(ME) as tx:
            await tx.execute("select %(text)s", {"text": CANARY + ending})
    assert caught.value.sqlstate is None
    assert CANARY not in everything(caught.value)


@pytest.mark.parametrize(
    ("statement", "values", "kind", "words"),
    [
        ("set transaction_read_only = on; delete from leases", None, DatabaseUnavailableError, "read-only"),
        ("select * from no_such_table", None, DatabaseSetupError, "mnemic db migrate"),
        ("select %s", [object()], MnemicError, "driver refused"),
    ],
)
async def test_other_errors_say_what_they_are_in_any_transaction(
    db: Database, statement: LiteralString, values: Any, kind: type[MnemicError], words: str
) -> None:
    for transaction in (db.transaction(ME), db.catalog()):
        with pytest.raises(kind, match=words):
            async with transaction as opened:
                await getattr(opened, "connection", opened).execute(statement, values)


async def test_a_pool_that_is_used_up_says_which_setting_to_raise(clean_db: Clone) -> None:
    async with clean_db.database(Settings(pool_size=1, pool_timeout_seconds=0.5)) as db, db.transaction(ME):
        with pytest.raises(DatabaseUnavailableError, match="MNEMIC_POOL_SIZE"):
            async with db.transaction(ME):
                pass


async def test_a_closed_database_says_so(clean_db: Clone) -> None:
    async with clean_db.database() as db:
        pass
    with pytest.raises(ClosedError):
        async with db.transaction(ME):
            pass


ANA = identity("ana", session="s1")
#: Long enough for a statement on a busy machine.
LIMITS = {"recall_timeout_seconds": 0.5, "statement_timeout_seconds": 0.5, "pool_size": 1}
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
    assert (await memory.recall(ANA, "hello")).degraded is None
    with frozen(fresh_db):
        async with asyncio.timeout(FOREVER):
            assert (await memory.recall(ANA, "hello")).degraded == "no_memory"
            while (await memory.recall(ANA, "hello")).degraded:
                pass  # the pool has another connection, though the old one is frozen still
    assert (await memory.recall(ANA, "hello")).degraded is None


@pytest.mark.parametrize("last", [False, True], ids=["in a statement", "at the commit"])
async def test_a_write_on_a_server_that_freezes_is_an_error_of_ours(fresh_db: Clone, last: bool) -> None:
    async with fresh_db.database(Settings(**LIMITS)) as db:
        with ExitStack() as ending:

            async def act(tx: ScopedTransaction) -> None:
                await scopes.configure_agent(tx, {"rag": False})
                ending.enter_context(frozen(fresh_db))
                if not last:
                    await scopes.agent_settings(tx)

            async with asyncio.timeout(FOREVER):
                with pytest.raises(DatabaseUnavailableError, match="does not respond"):
                    await db.write(ANA, act)
        async with db.transaction(ANA) as tx:
            assert await scopes.agent_settings(tx) in (({}, {"rag": False}) if last else ({},))


def test_what_a_dsn_says_of_the_network_is_not_overruled() -> None:
    dsn = make_conninfo(host="db", connect_timeout=9, keepalives_idle=7)
    options = connection_options(dsn)
    assert {"connect_timeout", "keepalives_idle"} & options.keys() == set()
    assert {"tcp_user_timeout", "keepalives_interval"} <= options.keys()


@pytest.mark.thorough
async def test_a_process_that_was_busy_itself_reads_what_has_come(fresh_db: Clone) -> None:
    settings = Settings(recall_timeout_seconds=0.1)
    async with fresh_db.database(settings) as database, database.transaction(ANA, for_recall=True) as tx:
        asked = asyncio.create_task(tx.execute("select 1", {}))
        await asyncio.sleep(0)  # the question goes out, and its limit begins
        time.sleep(0.1 + connection_module.ANSWER_SECONDS + 0.3)  # noqa: ASYNC251 - the host blocks its event loop
        assert await (await asked).fetchone() == (1,)
