"""What every storm needs: workers over one list of jobs, figures of the server, statements made worse on purpose."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import ModuleType
from typing import TypeVar

import pytest

from mnemic.state.identity import Identity
from mnemic.storage.database import Database
from mnemic.storage.schema import SERVICE_ROLE
from tests.support.server import Clone

Job = TypeVar("Job")


async def storm(jobs: Iterable[Job], act: Callable[[Job], Awaitable[object]], *, workers: int = 8) -> None:
    """Acts on every job, so many at a time; the first error that an act lets pass ends the storm."""
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            await act(job)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())


def worsen(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **changes: tuple[str, str]) -> None:
    """Replaces a part of some of a storage module's named statements, for a control that must fail."""
    statements = dict(module._SQL)
    for name, (part, instead) in changes.items():
        assert part in statements[name], f"{name} no longer says {part}"
        statements[name] = statements[name].replace(part, instead)
    monkeypatch.setattr(module, "_SQL", statements)


def deadlocks(clone: Clone) -> int:
    """Deadlocks in this database so far. Backends report them when they end at the latest: close the pools before."""
    with clone.as_superuser() as connection:
        row = connection.execute("select deadlocks from pg_stat_database where datname = %s", (clone.name,)).fetchone()
    assert row is not None
    return int(row[0])


def busy_backends(clone: Clone, pids: Iterable[int] | None = None) -> list[tuple[str, str]]:
    """State and newest statement of the service's backends that run something or sit in a transaction."""
    with clone.as_superuser() as connection:
        return connection.execute(
            "select state, query from pg_stat_activity where datname = %s and usename = %s and state <> 'idle'"
            " and (%s::int[] is null or pid = any(%s))",
            (clone.name, SERVICE_ROLE, *[None if pids is None else list(pids)] * 2),
        ).fetchall()


async def assert_pool_is_whole(database: Database, clone: Clone, who: Identity, *, size: int) -> None:
    """Every connection can be had at once, and afterwards none is left in a transaction."""
    async with AsyncExitStack() as stack:
        everything = [await stack.enter_async_context(database.scoped(who)) for _ in range(size)]
        pids = {scoped.connection.info.backend_pid for scoped in everything}
    stats = database.pool.get_stats()
    assert len(pids) == size
    assert (stats["pool_size"], stats["pool_available"], stats.get("requests_waiting", 0)) == (size, size, 0)
    assert busy_backends(clone, pids) == []
