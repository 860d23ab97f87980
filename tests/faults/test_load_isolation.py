"""Many users, few connections, and everything that goes wrong at once: nobody ever sees a row of somebody else."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from mnemic.state.settings import Settings
from mnemic.storage import database
from tests.faults.chaos import assert_pool_is_whole, storm
from tests.faults.people import PEOPLE, Town, plan, settle_in, tokens_in
from tests.support.server import Clone

pytestmark = pytest.mark.thorough

POOL = 3
KILLED = "SQL state 57P01"
THREADS = 8
#: Half a minute each where it is slow, on a busy machine of two cores.
SLOW = pytest.param(5000, marks=pytest.mark.slow)
SETTINGS = Settings(pool_size=POOL)


@asynccontextmanager
async def town(clone: Clone) -> AsyncIterator[Town]:
    async with clone.database(SETTINGS) as db:
        with clone.as_superuser() as superuser:
            yield Town(db, superuser)


def assert_as_promised(lived: Town) -> None:
    stored = tokens_in(lived.superuser)
    assert lived.foreign == []
    assert lived.committed <= stored
    assert not lived.rolled_back & stored


@pytest.mark.parametrize("transactions", [1000, SLOW])
async def test_eight_tasks_on_three_connections_see_no_foreign_row(fresh_db: Clone, transactions: int) -> None:
    async with town(fresh_db) as lived:
        await settle_in(lived.db)
        deeds = plan(transactions, seed=1)
        await storm(deeds, lived.live)

        assert_as_promised(lived)
        assert sum(lived.ends.values()) == transactions
        assert lived.seen > 5 * transactions
        # a killed backend costs its own transaction and no other one
        assert 0 < lived.ends[KILLED] <= sum(deed.fault == "killed" for deed in deeds)
        assert min(lived.ends[end] for end in ("error", "timeout", "cut while waiting", "cut within")) > 0
        await assert_pool_is_whole(lived.db, fresh_db, PEOPLE[0], size=POOL)


@pytest.mark.parametrize("transactions", [80, SLOW])
def test_eight_threads_each_with_its_own_pool_see_no_foreign_row(fresh_db: Clone, transactions: int) -> None:
    async def live(seed: int) -> Town:
        async with town(fresh_db) as lived:
            await storm(plan(transactions // THREADS, seed), lived.live)
            await assert_pool_is_whole(lived.db, fresh_db, PEOPLE[0], size=POOL)
            assert_as_promised(lived)
            return lived

    async def begin() -> None:
        async with town(fresh_db) as lived:
            await settle_in(lived.db)

    asyncio.run(begin())
    with ThreadPoolExecutor(THREADS) as threads:
        towns = list(threads.map(lambda seed: asyncio.run(live(seed)), range(THREADS)))
    assert sum(sum(lived.ends.values()) for lived in towns) == transactions
    assert sum(lived.seen for lived in towns) > 5 * transactions


@pytest.mark.parametrize("mistake", ["a scope that outlives its transaction", "no policy"])
async def test_control_the_same_storm_shows_foreign_rows_where_isolation_is_broken(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    if mistake == "no policy":
        with fresh_db.as_superuser() as connection:
            connection.execute("alter table mnemic.memories disable row level security")
    else:
        monkeypatch.setattr(database, "_SCOPE", database._SCOPE.replace("set local", "set session"))
    async with town(fresh_db) as lived:
        await settle_in(lived.db)
        await storm(plan(300, seed=2), lived.live)
    assert len(lived.foreign) > 50
