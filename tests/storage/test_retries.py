"""`write()`: what Postgres gave up for another's sake is done again."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from mnemic.state.errors import ConcurrentChangeError, DatabaseUnavailableError, MnemicError
from mnemic.state.records import ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import database as database_module
from mnemic.storage import scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.deadlocks import PATIENT, see_deadlocks_quickly
from tests.support.server import Clone
from tests.support.worlds import identity

ME = identity(session="s1")
KEYS = ("agent:harbor", "user:ana")


class Opposite:
    """Two writes that take the same two rows in opposite order, and meet between the first and the second."""

    def __init__(self, db: Database) -> None:
        self.runs = 0
        self._db = db
        self._meeting = asyncio.Barrier(2)

    async def both(self) -> list[str | BaseException]:
        return list(await asyncio.gather(self._write(KEYS), self._write(KEYS[::-1]), return_exceptions=True))

    async def _write(self, keys: Sequence[str]) -> str:
        async def act(scoped: ScopedTransaction) -> str:
            self.runs += 1
            is_first_time = self.runs <= 2
            for key in keys:
                await scopes.configure_scope(scoped, ScopeSettings(scope_key=key, name=keys[0]))
                if is_first_time and key == keys[0]:
                    await self._meeting.wait()
            return keys[0]

        return await self._db.write(ME, act)


@pytest.fixture
async def rows(fresh_db: Clone) -> Clone:
    see_deadlocks_quickly(fresh_db)
    async with fresh_db.database() as db, db.scoped(ME) as scoped:
        for key in KEYS:
            await scopes.configure_scope(scoped, ScopeSettings(scope_key=key))
    return fresh_db


async def test_a_deadlock_is_settled_by_doing_one_of_them_again(rows: Clone) -> None:
    async with rows.database(PATIENT) as db:
        opposite = Opposite(db)
        assert await opposite.both() == list(KEYS)
        assert opposite.runs == 3
        async with db.scoped(ME) as scoped:
            names = {part.name for part in (await scopes.scope_settings(scoped)).values()}
    assert len(names) == 1  # both rows are as the later of the two left them


async def test_without_retries_the_same_deadlock_is_an_error(rows: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "RETRIES", 0)
    async with rows.database(PATIENT) as db:
        opposite = Opposite(db)
        results = await opposite.both()
    (error,) = (result for result in results if isinstance(result, BaseException))
    assert isinstance(error, ConcurrentChangeError)
    assert (error.sqlstate, opposite.runs) == ("40P01", 2)


class GivenUp:
    """An act that Postgres gives up so often, with this code; without one we refuse it ourselves."""

    def __init__(self, state: str, times: int = 99) -> None:
        self.runs = 0
        self._state, self._times = state, times

    async def __call__(self, scoped: ScopedTransaction) -> str:
        self.runs += 1
        if self.runs <= self._times:
            if not self._state:
                raise ConcurrentChangeError
            await scoped.execute(f"do $$ begin raise exception using errcode = '{self._state}'; end $$", {})
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
        await db.write(ME, lambda scoped: scopes.configure_agent(scoped, {}))
        with clean_db.as_superuser() as connection:
            connection.execute("begin")
            connection.execute("select 1 from mnemic.agents for update")
            runs = 0

            async def act(scoped: ScopedTransaction) -> None:
                nonlocal runs
                runs += 1
                if runs == 3:
                    connection.execute("rollback")
                await scopes.configure_agent(scoped, {"rag": False})

            await db.write(ME, act)
            assert runs == 3
            connection.execute("begin")
            connection.execute("select 1 from mnemic.agents for update")
            with pytest.raises(DatabaseUnavailableError):  # and one that does not is an error
                await db.write(ME, lambda scoped: scopes.configure_agent(scoped, {}))
        async with db.scoped(ME) as scoped:
            assert await scopes.agent_settings(scoped) == {"rag": False}


async def test_no_connection_is_held_between_two_tries(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda *_: 60.0)  # the pause outlasts the test
    act = GivenUp("40001")
    async with clean_db.database(Settings(pool_size=1, pool_timeout_seconds=5)) as db:
        writing = asyncio.create_task(db.write(ME, act))
        while not act.runs:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        async with db.scoped(ME) as scoped:  # the only connection
            await scoped.execute("select 1", {})
        assert not writing.done()
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


async def test_an_administrators_act_is_done_again_too(clean_db: Clone) -> None:
    act = GivenUp("40P01", times=1)
    administrators = Database(clean_db.administrator_dsn, Settings())
    await administrators.open()
    try:
        assert await administrators.administer("harbor", "administrator", act) == "done"
    finally:
        await administrators.close()
    assert act.runs == 2
