"""Transactions: what they see and leave, what is done again, and that none waits for ever."""

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg.errors import ReadOnlySqlTransaction

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, MnemicError
from mnemic.state.records import ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import connection as connection_module
from mnemic.storage import database as database_module
from mnemic.storage import inbox, scopes
from mnemic.storage.database import Database
from mnemic.storage.doctor import check
from mnemic.storage.transaction import ScopedTransaction
from tests.support.server import PATIENT, Clone, see_deadlocks_quickly
from tests.support.threads import answering, at, said, saver_of
from tests.support.worlds import identity, memory, message, operate, remember

ME = identity(session="s1")
KEYS = ("agent:harbor", "user:ana")


async def test_a_deadlock_is_settled_by_doing_one_of_them_again(fresh_db: Clone) -> None:
    """Two writes that take the same two rows in opposite order, and meet between the first and the second."""
    see_deadlocks_quickly(fresh_db)
    runs: list[str] = []
    meeting = asyncio.Barrier(2)
    async with fresh_db.database(PATIENT) as db:
        async with db.transaction(ME) as tx:
            for key in KEYS:
                await scopes.configure_scope(tx, ScopeSettings(scope_key=key))

        async def write(first: str, second: str) -> None:
            async def act(tx: ScopedTransaction) -> None:
                runs.append(first)
                is_first_time = len(runs) <= 2
                await scopes.configure_scope(tx, ScopeSettings(scope_key=first, name=first))
                if is_first_time:
                    await meeting.wait()
                await scopes.configure_scope(tx, ScopeSettings(scope_key=second, name=first))

            await db.write(ME, act)

        await asyncio.gather(write(*KEYS), write(*KEYS[::-1]))
        async with db.transaction(ME) as tx:
            names = {part.name for part in (await scopes.scope_settings(tx)).values()}
    assert len(runs) == 3
    assert names == {runs[-1]}  # both rows are as the later of the two left them


class GivenUp:
    """An act that Postgres gives up so often, with this code; without one we refuse it ourselves."""

    def __init__(self, state: str, times: int = 99) -> None:
        self.runs = 0
        self._state, self._times = state, times

    async def __call__(self, tx: ScopedTransaction) -> str:
        self.runs += 1
        if self.runs <= self._times:
            if not self._state:
                raise ConcurrentChangeError
            await tx.execute(f"do $$ begin raise exception using errcode = '{self._state}'; end $$", {})
        return "done"


@pytest.mark.parametrize(
    ("state", "runs"),
    [("40001", 4), ("40P01", 4), ("55P03", 4), ("23505", 1), ("42501", 1), ("57014", 1), ("22P02", 1), ("", 1)],
)
async def test_a_write_is_tried_four_times_where_that_can_help(db: Database, state: str, runs: int) -> None:
    act = GivenUp(state)
    with pytest.raises(MnemicError) as caught:
        await db.write(ME, act)
    assert (caught.value.sqlstate or "", act.runs) == (state, runs)


async def test_a_row_that_comes_free_in_the_meantime_is_written(clean_db: Clone) -> None:
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db:
        await db.write(ME, lambda tx: scopes.configure_agent(tx, {}))
        with clean_db.as_superuser() as connection:
            connection.execute("begin")
            connection.execute("select 1 from mnemic.agents for update")
            runs = 0

            async def act(tx: ScopedTransaction) -> None:
                nonlocal runs
                runs += 1
                if runs == 3:
                    connection.execute("rollback")
                await scopes.configure_agent(tx, {"rag": False})

            await db.write(ME, act)
            assert runs == 3
            connection.execute("begin")
            connection.execute("select 1 from mnemic.agents for update")
            with pytest.raises(DatabaseUnavailableError):  # and one that does not is an error
                await db.write(ME, lambda tx: scopes.configure_agent(tx, {}))
        async with db.transaction(ME) as tx:
            assert await scopes.agent_settings(tx) == {"rag": False}


async def test_no_connection_is_held_between_two_tries(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda *_: 60.0)  # the pause outlasts the test
    act = GivenUp("40001")
    async with clean_db.database(Settings(pool_size=1, pool_timeout_seconds=5)) as db:
        writing = asyncio.create_task(db.write(ME, act))
        while not act.runs:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        async with db.transaction(ME) as tx:  # the only connection
            await tx.execute("select 1", {})
        assert not writing.done()
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


@pytest.mark.parametrize(("limit", "for_recall"), [("statement", False), ("recall", True)])
async def test_a_statement_that_takes_too_long_is_cut(clean_db: Clone, limit: str, for_recall: bool) -> None:
    settings = Settings.model_validate({f"{limit}_timeout_seconds": 0.1, "pool_size": 1})
    async with clean_db.database(settings) as db:
        with pytest.raises(DatabaseUnavailableError, match="too long") as caught:
            async with db.transaction(ME, for_recall=for_recall) as tx:
                await tx.execute("select pg_sleep(0.5)", {})
    assert caught.value.sqlstate == "57014"


@pytest.mark.parametrize("for_recall", [False, True])
async def test_every_limit_ends_with_its_transaction(clean_db: Clone, for_recall: bool) -> None:
    limits = "select current_setting(name) from unnest(%(names)s::text[]) as name"
    names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_read_only"]
    async with clean_db.database(Settings(pool_size=1)) as db:
        async with db.transaction(ME, for_recall=for_recall) as tx:
            inside = await (await tx.execute(limits, {"names": names})).fetchall()
        async with db.catalog():
            pass
        async with db.pool.connection() as connection:
            after = await (await connection.execute(limits, {"names": names})).fetchall()
    assert inside == [("2s" if for_recall else "30s",), ("1s",), ("5s",), ("off",)]
    assert after == [("0",), ("0",), ("0",), ("off",)]


@pytest.mark.parametrize("seconds", [0.0001, 0.0015])
async def test_a_limit_below_a_millisecond_is_not_no_limit(clean_db: Clone, seconds: float) -> None:
    async with clean_db.database(Settings(lock_timeout_seconds=seconds)) as db, db.transaction(ME) as tx:
        row = await (await tx.execute("select current_setting('lock_timeout')", {})).fetchone()
    assert row in (("1ms",), ("2ms",))


async def stand_still(db: Database) -> tuple[BaseException | None, BaseException | None]:
    """What becomes of a transaction that stands still with the agent's head, and of another one that wants it."""
    held, over = asyncio.Event(), asyncio.Event()

    async def frozen() -> None:
        async with db.transaction(ME) as tx:
            await tx.begin_operation("formation")
            held.set()
            await over.wait()
            await tx.execute("select 1", {})

    async def other() -> None:
        await held.wait()
        try:
            async with db.transaction(ME) as tx:
                await tx.begin_operation("formation")
        finally:
            over.set()

    return await asyncio.gather(frozen(), other(), return_exceptions=True)


@pytest.mark.parametrize(
    ("idle", "head", "lock", "failed"),
    [
        pytest.param(0.1, 10, 20, "the frozen one", id="it is ended and others go on"),
        pytest.param(0.5, 10, 0.05, "the frozen one", id="the head is waited for longer than another row"),
        pytest.param(5, 0, 0.05, "the other", id="control: with the patience of any other row"),
        pytest.param(600, 0.5, 0.5, "the other", id="control: without the limit", marks=pytest.mark.thorough),
    ],
)
async def test_a_transaction_that_stands_still_costs_nobody_a_save(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch, idle: float, head: float, lock: float, failed: str
) -> None:
    monkeypatch.setattr(database_module, "IDLE_SECONDS", idle)
    monkeypatch.setattr(database_module, "HEAD_SECONDS", head)
    async with clean_db.database(Settings(lock_timeout_seconds=lock)) as db:
        await remember(db, ME)
        ends = await stand_still(db)
        assert [isinstance(end, DatabaseUnavailableError) for end in ends] == [
            failed == "the frozen one",
            failed == "the other",
        ]
        await remember(db, ME)


async def test_a_check_of_the_catalogs_outlives_a_process_that_stands_still(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "IDLE_SECONDS", 0.05)
    async with clean_db.database() as db, db.catalog() as connection:
        time.sleep(0.2)  # noqa: ASYNC251 - the process stands still
        await connection.execute("select 1")


async def test_the_longer_wait_is_for_the_head_alone(clean_db: Clone) -> None:
    shown = "select current_setting('lock_timeout')"
    assert database_module.HEAD_SECONDS > database_module.IDLE_SECONDS
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db, db.transaction(ME) as tx:
        await tx.begin_operation("formation")
        assert await (await tx.execute(shown, {})).fetchone() == ("50ms",)


async def test_scope_ends_with_the_transaction_and_without_one_no_row_is_visible(clean_db: Clone) -> None:
    settings = "select current_setting('mnemic.agent_id', true), current_setting('mnemic.scope_keys', true)"
    tables = ("agents", "scopes", "sessions", "messages", "memories", "sources", "entries", "history",
              "history_contents", "token_usage")  # fmt: skip
    async with clean_db.database(Settings(pool_size=1)) as db:
        await remember(db, identity(), memory("Ana keeps bees."))
        async with db.catalog() as connection:  # the same and only connection of the pool
            assert await (await connection.execute(settings)).fetchone() == ("", "")
            for table in tables:
                rows = await connection.execute(f"select count(*) from {table}")
                assert await rows.fetchone() == (0,), table
            with pytest.raises(ReadOnlySqlTransaction):
                await connection.execute("insert into agents (agent_id) values ('harbor')")


async def test_a_cut_connection_is_an_unavailable_database(db: Database, clean_db: Clone) -> None:
    async def cut(tx: ScopedTransaction) -> None:
        with clean_db.as_superuser() as connection:
            connection.execute("select pg_terminate_backend(%s)", (tx.connection.info.backend_pid,))
        await tx.execute("select 1", {})

    with pytest.raises(DatabaseUnavailableError):
        await operate(db, identity(), cut)


async def test_an_unreachable_database_says_what_to_check(clean_db: Clone) -> None:
    dsn = clean_db.service_dsn.replace(clean_db.name, "no_such_database")
    with pytest.raises(DatabaseUnavailableError, match="MNEMIC_DATABASE_URL"):
        async with clean_db.database(Settings(pool_timeout_seconds=0.2), dsn=dsn):
            pass


async def test_a_moment_has_the_same_day_on_every_machine(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGTZ", "America/Los_Angeles")
    late = datetime(2026, 5, 8, 2, 0, tzinfo=UTC)
    async with clean_db.database(Settings()) as db, db.transaction(identity(session="s1")) as tx:
        await inbox.observe(tx, "s1", [message("Tomorrow, then.", said_at=late)])
        (read,) = (await inbox.read_inbox(tx, "s1", limit=5)).messages
    assert read.said_at.isoformat() == "2026-05-08T02:00:00+00:00"


async def test_no_spelling_of_an_id_is_more_than_that_id(db: Database) -> None:
    """The scope is sent as text with BEGIN, so whatever an id or a category holds has to stay inside its quotes."""
    odd = ["plain", "", "NULL", '\\"', "a,b", " edge ", "ü€", "a\nb"]
    await remember(db, identity("bo"), memory("Bo keeps bees.", key="user:bo"))
    for name in ('an"a', "an\\a", "an'a", "ana'; set local mnemic.scope_keys = '{user:bo}", "{ana,bo}", "%s"):
        who = identity(name)
        async with db.transaction(who, categories=[name, *odd]) as tx:
            cursor = await tx.execute(
                "select current_setting('mnemic.agent_id'), current_setting('mnemic.scope_keys')::text[],"
                " current_setting('mnemic.categories')::text[], (select count(*) from memories)",
                {},
            )
            assert await cursor.fetchall() == [("harbor", [*who.scope_keys], [name, *odd], 0)]


#: One more than psycopg sends before it prepares.
TIMES = 6


async def _of_a_pooler(connection: Any) -> int:
    """Another process than the client was told of at its connect, and the same one each time."""
    return int(connection.info.backend_pid) + 1


@pytest.mark.parametrize(
    ("poses", "pooler", "prepares"),
    [
        (True, "auto", False),
        (True, "none", True),
        (True, "transaction", False),
        (False, "auto", True),
        (False, "transaction", False),
    ],
)
async def test_statements_are_prepared_only_where_a_connection_stays_the_same(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch, poses: bool, pooler: str, prepares: bool
) -> None:
    if poses:
        monkeypatch.setattr(connection_module, "_server_process", _of_a_pooler)
    async with clean_db.database(Settings(pooler=pooler, pool_size=1)) as db:
        for number in range(TIMES):  # reads, writes and talks often enough that the driver would prepare it
            await remember(db, identity(), memory(f"Ana has {number} hives."))
            await answering(saver_of(db)).ainvoke(said("hello"), at("t"))
        async with db.catalog() as connection:
            prepared = await connection.execute("select name from pg_prepared_statements where not from_sql")
            assert bool(await prepared.fetchall()) == prepares
        (found,) = [finding for finding in await check(db) if finding.name == "pooler"]
    assert found.ok
    assert ("session" in found.note) == poses
    assert found.note.endswith("on" if prepares else "off")


async def test_a_session_id_in_a_content_is_stored_as_it_is(db: Database) -> None:
    """Only scope keys and session ids are replaced by those under which a session is stored."""
    async with db.transaction(identity(session="theirs")) as tx:
        renamed = replace(tx, stored_session_id="theirs~1")
        values = {"content": "session:theirs", "words": ["session:theirs"], "key": "session:theirs"}
        statement = "select %(content)s::text, %(words)s::text[], %(key)s::text"
        (row,) = await renamed.tuples(statement, values)
    assert row == ("session:theirs", ["session:theirs"], "session:theirs~1")
