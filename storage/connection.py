"""Connections that do not wait for ever for a server that is silent, the queue of recalls, and a look for a pooler."""

import asyncio
import math
import re
import select
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic
from typing import Any, Final, Literal, TypeVar

from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection, Error, OperationalError, ProgrammingError
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.array import ListBinaryDumper

from mnemic.state.errors import BusyError, DatabaseUnavailableError
from mnemic.storage.failures import typed_error
from mnemic.storage.transaction import HalfVectors

_Result = TypeVar("_Result")
PoolerMode = Literal["session", "transaction"]

#: What an answer may take beyond the limit the server keeps itself: only one that is frozen or cut off is later.
ANSWER_SECONDS: Final = 1.0
#: Outside of a transaction nothing is asked but whether the server is there.
_CHECK_SECONDS: Final = 5.0
#: Over TCP a host that went away without a word is noticed within a minute, by an idle connection too; a DSN's own win.
_TCP: Final = {
    "connect_timeout": 5,  # seconds, as the next two
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
#: Faults of a server that starts, ends or is full, as it and libpq name them. Only how long is waited depends on it.
_PASSING: Final = re.compile(
    "connection refused|timeout|no such file|starting up|shutting down|not yet accepting|too many clients",
    re.IGNORECASE,
)
_RETRY_SECONDS: Final = 0.2
_MAX_REASON_LENGTH: Final = 500
#: Whoever asks for the server's process, by turns. No pooler that shares has the same two processes answer the same two
#: clients each time: neither the one that takes what was given back last, nor the one that takes them in a circle.
_TURNS: Final = (0, 1, 1, 0, 0, 1)


def connection_options(dsn: str) -> dict[str, Any]:
    """What every connection of the pool is made with, beside the DSN."""
    named = conninfo_to_dict(dsn)
    # an SQL_ASCII database would answer in bytes, even the doctor
    return {"client_encoding": "UTF8", **{name: value for name, value in _TCP.items() if name not in named}}


def has_unread(connection: AsyncConnection[Any]) -> bool:
    """Return whether the server has sent something that was not read yet: an answer, or its goodbye."""
    unread = select.poll()  # and not select(), which fails beyond 1,024 open files
    unread.register(connection.fileno(), select.POLLIN)
    return bool(unread.poll(0))


class TimeoutConnection(AsyncConnection[Any]):
    """Hangs up on a server that says nothing for longer than it was given; what waited gets an OperationalError.

    The server's own limits do not hold where the server is frozen or the network swallows everything, and to cancel
    such a statement costs psycopg another ten seconds of waiting for the server.
    """

    _patience = _CHECK_SECONDS
    _timer: asyncio.TimerHandle

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """A transaction on a server that keeps to so many seconds for each statement."""
        self._patience = seconds + ANSWER_SECONDS
        try:
            yield
        finally:
            self._patience = _CHECK_SECONDS

    @property
    def has_unread(self) -> bool:
        """Whether the server has said something that nobody has read yet: an answer, or its goodbye."""
        return has_unread(self)

    async def wait(self, gen: PQGen[_Result], *args: Any, **named: Any) -> _Result:
        """Every exchange with the server goes through this method of psycopg's."""
        self._set_timer()
        try:
            return await super().wait(gen, *args, **named)
        finally:
            self._timer.cancel()

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._hang_up)

    def _hang_up(self) -> None:
        if self.closed:
            return
        if self.has_unread:
            self._set_timer()  # something has come: it was this process that was late
            return
        line = socket.socket(fileno=self.fileno())
        try:
            line.shutdown(socket.SHUT_RDWR)
        finally:
            line.detach()  # the descriptor stays the driver's


class RecallQueue:
    """Recalls a few at a time, first come, first served, so that each statement stays quick when very many come.

    What is waited here says nothing about the database, and counts against no limit of it.

    Args:
        width: recalls at a time.
        patience_seconds: the longest wait.
    """

    def __init__(self, width: int, patience_seconds: float) -> None:
        self._places = asyncio.Semaphore(width)
        self._patience = patience_seconds
        #: When the database last served anybody, and when a recall last waited in vain while it served nobody.
        self.served_at = self._missed_at = -math.inf

    def has_served_since(self, moment: float) -> bool:
        """Whether it did after this moment, so that it is there, however long somebody else waits."""
        return self.served_at > moment

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a place and keeps it until the block ends.

        Raises:
            BusyError: none came free in time.
            DatabaseUnavailableError: a recall that stood before this one has just found no database.
        """
        came_at = monotonic()
        try:
            async with asyncio.timeout(self._patience):
                await self._places.acquire()
        except TimeoutError:
            raise BusyError from None
        try:
            if self._missed_at > came_at:  # or each would wait in vain for as long as the one before
                raise DatabaseUnavailableError
            begun_at = monotonic()
            try:
                yield
            except DatabaseUnavailableError as error:
                if error.sqlstate is None and not self.has_served_since(begun_at):
                    self._missed_at = monotonic()
                raise
        finally:
            self._places.release()


async def connect(dsn: str, variable: str, seconds: float) -> AsyncConnection[Any]:
    """Return a connection outside of the pool; wait up to so many seconds for a server that is still starting.

    Args:
        dsn: of the database.
        variable: the name of the DSN's setting, for the message.
        seconds: the longest wait.

    Raises:
        DatabaseUnavailableError: no connection; the message has the reason, which quotes no password.
    """
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, **connection_options(dsn)}
    reason = "the server does not answer"
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await AsyncConnection.connect(dsn, **options)
                except Error as error:
                    # the driver's lines; the second one is its advice
                    reason = "; ".join(line.strip() for line in str(error).splitlines())[:_MAX_REASON_LENGTH]
                if not _PASSING.search(reason):
                    break
                await asyncio.sleep(_RETRY_SECONDS)
    raise DatabaseUnavailableError(
        f"no connection with {variable}: {reason.rstrip('.?')}. Check that the server runs and that the DSN is right"
    )


async def configure(pooler: str, connection: TimeoutConnection) -> None:
    """Makes a new connection ready, as the setting of poolers says."""
    await connection.set_autocommit(True)  # a transaction lasts exactly as long as tx()
    if pooler == "transaction" or (pooler == "auto" and await is_pooled(connection)):
        # the next transaction may meet a server connection that lacks the statement, or has another's of that name
        connection.prepare_threshold = None
    with suppress(ProgrammingError):  # without pgvector the pool opens all the same, so that the doctor can say so
        await register_vector_async(connection)
    # a list's own writes text, five times as long
    connection.adapters.register_dumper(HalfVectors, ListBinaryDumper)


async def is_pooled(connection: AsyncConnection[Any]) -> bool:
    """Whether a pooler stands before the server: it tells its clients a process number of its own at the connect.

    A lone client of a pooler meets the same process in every transaction, so that this alone can tell.
    """
    return await _process(connection) != connection.info.backend_pid


async def pooler_mode(dsn: str) -> PoolerMode | None:
    """`transaction` where two clients were seen to share a server process or to change it; None without a pooler.

    Raises:
        DatabaseUnavailableError: the database cannot be reached or does not answer.
    """
    try:
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
    except Error as error:
        raise typed_error(error) from None
    return "transaction" if len(seen[0] | seen[1]) < 2 or max(map(len, seen)) > 1 else "session"


async def _connect(dsn: str) -> TimeoutConnection:
    return await TimeoutConnection.connect(dsn, autocommit=True, prepare_threshold=None, **connection_options(dsn))


async def _process(connection: AsyncConnection[Any]) -> int:
    row = await (await connection.execute("select pg_backend_pid()")).fetchone()
    return int(row[0]) if row else 0
