"""No transaction waits for ever: not for a statement, not for a row, and not for its own process."""

import asyncio

import pytest

from mnemic.state.errors import DatabaseUnavailableError
from mnemic.state.settings import Settings
from mnemic.state.usage import Usage
from mnemic.storage import pool as pool_module
from mnemic.storage import scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.server import Clone
from tests.support.worlds import identity, remember

ME = identity()
SLOW = "select pg_sleep(0.5)"


async def sleep(db: Database, *, for_recall: bool = False) -> None:
    async with db.scoped(ME, for_recall=for_recall) as scoped:
        await scoped.execute(SLOW, {})


@pytest.mark.parametrize(("limit", "for_recall"), [("statement", False), ("recall", True)])
async def test_a_statement_that_takes_too_long_is_cut(clean_db: Clone, limit: str, for_recall: bool) -> None:
    settings = Settings.model_validate({f"{limit}_timeout_seconds": 0.1, "pool_size": 1})
    async with clean_db.database(settings) as db:
        with pytest.raises(DatabaseUnavailableError, match="too long") as caught:
            await sleep(db, for_recall=for_recall)
        if for_recall:
            await sleep(db)  # the same connection: the limit ended with its transaction
    assert caught.value.sqlstate == "57014"


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

        with clean_db.as_superuser() as other, other.transaction():
            other.execute("select 1 from mnemic.agents for update")
            with pytest.raises(DatabaseUnavailableError, match="another transaction") as caught:
                async with db.scoped(ME) as scoped:
                    await act(scoped)
        assert caught.value.sqlstate == "55P03"
        async with db.scoped(ME) as scoped:
            assert (await scopes.usage_totals(scoped), await scopes.agent_settings(scoped)) == ([], {})
            await act(scoped)
            assert len(await scopes.usage_totals(scoped)) == 1


async def stand_still(db: Database) -> list[BaseException | None]:
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
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", idle)
    monkeypatch.setattr(pool_module, "HEAD_SECONDS", head)
    async with clean_db.database(Settings(lock_timeout_seconds=lock)) as db:
        await remember(db, ME)
        ends = await stand_still(db)
        assert [isinstance(end, DatabaseUnavailableError) for end in ends] == [
            failed == "the frozen one",
            failed == "the other",
        ]
        await remember(db, ME)


def test_the_head_is_waited_for_until_a_frozen_holder_is_ended() -> None:
    assert pool_module.HEAD_SECONDS > pool_module.IDLE_SECONDS


async def test_the_longer_wait_is_for_the_head_alone(clean_db: Clone) -> None:
    shown = "select current_setting('lock_timeout')"
    async with clean_db.database(Settings(lock_timeout_seconds=0.05)) as db, db.scoped(ME) as scoped:
        await scoped.begin_operation("formation")
        assert await (await scoped.execute(shown, {})).fetchone() == ("50ms",)
