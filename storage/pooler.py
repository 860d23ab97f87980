"""Finds out whether a pooler stands before the server, and whether transactions share its server connections."""

from typing import Any, Final, Literal

from psycopg import AsyncConnection, OperationalError

from mnemic.storage.connection import PatientConnection, connection_options

PoolerMode = Literal["session", "transaction"]

#: Whoever asks for the server's process, by turns. No pooler that shares has the same two processes answer the same two
#: clients each time: neither the one that takes what was given back last, nor the one that takes them in a circle.
_TURNS: Final = (0, 1, 1, 0, 0, 1)


async def is_pooled(connection: AsyncConnection[Any]) -> bool:
    """Whether a pooler stands before the server: it tells its clients a process number of its own at the connect.

    A lone client of a pooler meets the same process in every transaction, so that this alone can tell.
    """
    return await _process(connection) != connection.info.backend_pid


async def pooler_mode(dsn: str) -> PoolerMode | None:
    """`transaction` where two clients were seen to share a server process or to change it; None without a pooler."""
    async with await _connect(dsn) as first:
        if not await is_pooled(first):
            return None
        try:
            async with await _connect(dsn) as second:
                seen: tuple[set[int], set[int]] = set(), set()
                for turn in _TURNS:
                    seen[turn].add(await _process((first, second)[turn]))
        except OperationalError:  # it lets a second client wait, and so keeps the server for the first
            return "session"
    return "transaction" if len(seen[0] | seen[1]) < 2 or max(map(len, seen)) > 1 else "session"


async def _connect(dsn: str) -> PatientConnection:
    return await PatientConnection.connect(dsn, autocommit=True, prepare_threshold=None, **connection_options(dsn))


async def _process(connection: AsyncConnection[Any]) -> int:
    row = await (await connection.execute("select pg_backend_pid()")).fetchone()
    return int(row[0]) if row else 0
