"""No transaction waits for ever: not for a statement, not for a row, and not for its own process."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from mnemic.state.errors import DatabaseUnavailableError
from mnemic.state.kinds import Usage
from mnemic.state.settings import Settings
from mnemic.storage import pool as pool_module
from mnemic.storage import scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.server import Clone
from tests.support.worlds import identity, remember

ME = identity()
SLOW = "select pg_sleep(0.5)"


@contextmanager
def held_row(clone: Clone) -> Iterator[psycopg.Connection]:
    """The agent's row, locked by somebody else until the block ends."""
    with clone.as_superuser() as connection, connection.transaction():
        connection.execute("select 1 from mnemic.agents for update")
        yield connection


async def sleep(db: Database, *, for_recall: bool = False) -> None:
    async with db.scoped(ME, for_recall=for_recall) as scoped:
        await scoped.execute(SLOW, {})


async def test_a_statement_that_takes_too_long_is_cut(clean_db: Clone) -> None:
    async with clean_db.database(Settings(statement_timeout_seconds=0.1)) as db:
        with pytest.raises(DatabaseUnavailableError, match="too long") as caught:
            await sleep(db)
    assert caught.value.sqlstate == "57014"


async def test_a_recall_has_a_shorter_time_than_a_write(clean_db: Clone) -> None:
    async with clean_db.database(Settings(recall_timeout_seconds=0.1, pool_size=1)) as db:
        with pytest.raises(DatabaseUnavailableError, match="too long"):
            await sleep(db, for_recall=True)
        await sleep(db)  # the same connection: the limit ended with its transaction


@pytest.mark.parametrize("for_recall", [False, True])
async def test_every_limit_ends_with_its_transaction(clean_db: Clone, for_recall: bool) -> None:
    limits = "select current_setting(name) from unnest(%(names)s::text[]) as name"
    names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_read_only"]
    async with clean_db.database(Settings(pool_size=1)) as db:
        async with db.scoped(ME, for_recall=for_recall) as scoped:
            inside = await (await scoped.execute(limits, {"names": names})).fetchall()
        async with db.catalog():
            pass
        async with db.pool.connection() as connection:
            after = await (await connection.execute(limits, {"names": names})).fetchall()
    assert inside == [("2s" if for_recall else "30s",), ("1s",), ("5s",), ("off",)]
    assert after == [("0",), ("0",), ("0",), ("off",)]


async def test_a_recall_waits_less_for_a_connection_too(clean_db: Clone) -> None:
    async with clean_db.database(Settings(recall_timeout_seconds=0.1, pool_size=1)) as db, db.scoped(ME):
        with pytest.raises(DatabaseUnavailableError, match="MNEMIC_POOL_SIZE"):
            await sleep(db, for_recall=True)


@pytest.mark.parametrize("seconds", [0.0001, 0.0015])
async def test_a_limit_below_a_millisecond_is_not_no_limit(clean_db: Clone, seconds: float) -> None:
    async with clean_db.database(Settings(lock_timeout_seconds=seconds)) as db, db.scoped(ME) as scoped:
        row = await (await scoped.execute("select current_setting('lock_timeout')", {})).fetchone()
    assert row in (("1ms",), ("2ms",))


async def test_a_row_that_somebody_holds_is_an_error_and_nothing_is_half_written(clean_db: Clone) -> None:
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db:
        await remember(db, ME)

        async def act(scoped: ScopedTransaction) -> None:
            await scopes.record_usage(scoped, Usage(step="save", model="m", calls=1))
            await scopes.configure_agent(scoped, {"rag": False})

        with held_row(clean_db), pytest.raises(DatabaseUnavailableError, match="another transaction") as caught:
            async with db.scoped(ME) as scoped:
                await act(scoped)
        assert caught.value.sqlstate == "55P03"
        async with db.scoped(ME) as scoped:
            assert (await scopes.usage_totals(scoped), await scopes.agent_settings(scoped)) == ([], {})
            await act(scoped)
            assert len(await scopes.usage_totals(scoped)) == 1


async def stand_still(db: Database) -> tuple[Exception | None, Exception | None]:
    """What becomes of a transaction that stands still with the agent's head, and of another one that wants it."""
    held, over = asyncio.Event(), asyncio.Event()

    async def frozen() -> None:
        async with db.scoped(ME) as scoped:
            await scoped.begin_operation("formation")
            held.set()
            await over.wait()
            await scoped.execute("select 1", {})

    async def other() -> None:
        await held.wait()
        try:
            async with db.scoped(ME) as scoped:
                await scoped.begin_operation("formation")
        finally:
            over.set()

    first, second = await asyncio.gather(frozen(), other(), return_exceptions=True)
    assert not isinstance(first, BaseException) or isinstance(first, DatabaseUnavailableError)
    assert not isinstance(second, BaseException) or isinstance(second, DatabaseUnavailableError)
    return first, second


async def test_a_transaction_that_stands_still_is_ended_and_others_go_on(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.1)
    async with clean_db.database(Settings(lock_timeout_seconds=20)) as db:
        await remember(db, ME)
        first, second = await stand_still(db)
        assert isinstance(first, DatabaseUnavailableError)
        assert second is None
        await remember(db, ME)


@pytest.mark.thorough
async def test_with_no_such_limit_the_others_would_have_failed(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 600)
    monkeypatch.setattr(pool_module, "HEAD_SECONDS", 0.5)
    async with clean_db.database(Settings(lock_timeout_seconds=0.5)) as db:
        await remember(db, ME)
        first, second = await stand_still(db)
        assert first is None
        assert isinstance(second, DatabaseUnavailableError)


def test_the_head_is_waited_for_until_a_frozen_holder_is_ended() -> None:
    assert pool_module.HEAD_SECONDS > pool_module.IDLE_SECONDS


async def test_a_frozen_holder_of_the_head_costs_nobody_a_save(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.5)
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db:
        await remember(db, ME)
        first, second = await stand_still(db)
    assert isinstance(first, DatabaseUnavailableError)
    assert second is None


async def test_with_the_patience_of_any_other_row_it_would(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 5)
    monkeypatch.setattr(pool_module, "HEAD_SECONDS", 0)
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db:
        await remember(db, ME)
        first, second = await stand_still(db)
    assert first is None
    assert isinstance(second, DatabaseUnavailableError)
    assert second.sqlstate == "55P03"


async def test_the_longer_wait_is_for_the_head_alone(clean_db: Clone) -> None:
    shown = "select current_setting('lock_timeout')"
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db, db.scoped(ME) as scoped:
        await scoped.begin_operation("formation")
        assert await (await scoped.execute(shown, {})).fetchone() == ("50ms",)
