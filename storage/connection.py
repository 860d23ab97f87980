"""Connections with a limit on the server's silence, the queue of recalls, and the detection of poolers."""

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

#: Time for an answer beyond the server's own limit; only a frozen or disconnected server takes longer.
ANSWER_SECONDS: Final = 1.0
#: Time limit outside of a transaction, where the only query is the check of the connection.
_CHECK_SECONDS: Final = 5.0
#: TCP options by which a lost host is noticed within a minute, by an idle connection too; those of the DSN win.
_TCP: Final = {
    "connect_timeout": 5,  # seconds, as the next two
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
#: Messages of Postgres and libpq about a server that starts, ends or is full; another attempt follows them.
_PASSING: Final = re.compile(
    "connection refused|timeout|no such file|starting up|shutting down|not yet accepting|too many clients",
    re.IGNORECASE,
)
_RETRY_SECONDS: Final = 0.2
#: Beginning of a line of the driver that repeats the advice of our own message.
_DRIVERS_ADVICE: Final = "Is the server running"
_MAX_REASON_LENGTH: Final = 500
#: Order in which two clients query their server process. A pooler that shares connections cannot give each client the
#: same process every time, neither last-in-first-out nor in a circle.
_TURNS: Final = (0, 1, 1, 0, 0, 1)


def connection_options(dsn: str) -> dict[str, Any]:
    """Return the options of every connection of the pool that the DSN does not have."""
    named = conninfo_to_dict(dsn)
    options: dict[str, Any] = {"client_encoding": "UTF8"}  # an SQL_ASCII database would return bytes
    for name, value in _TCP.items():
        if name not in named:
            options[name] = value
    return options


def has_unread(connection: AsyncConnection[Any]) -> bool:
    """Return whether the server has sent data that was not read: an answer, or the end of the connection."""
    unread = select.poll()  # select() fails beyond 1,024 open files
    unread.register(connection.fileno(), select.POLLIN)
    return bool(unread.poll(0))


class TimeoutConnection(AsyncConnection[Any]):
    """A connection that is shut down if the server is silent for too long; the caller gets an OperationalError.

    The server's own limits fail if the server is frozen or the network drops everything. Cancelling such a statement
    makes psycopg wait for the server for another ten seconds.
    """

    _max_silence_seconds = _CHECK_SECONDS
    #: Time of the loop at which an exchange is shut down; None between exchanges.
    _deadline: float | None = None
    #: It outlives exchanges, since a timer for each would cost a tenth of a small statement.
    _timer: asyncio.TimerHandle | None = None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Allow a silence for the block that fits the server's own limit for each statement."""
        self._max_silence_seconds = seconds + ANSWER_SECONDS
        try:
            yield
        finally:
            self._max_silence_seconds = _CHECK_SECONDS

    @property
    def has_unread(self) -> bool:
        """Whether the server has sent data that was not read: an answer, or the end of the connection."""
        return has_unread(self)

    async def wait(self, gen: PQGen[_Result], *args: Any, **named: Any) -> _Result:
        """Limit the time of an exchange; psycopg runs each one through this method."""
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + self._max_silence_seconds
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer(loop, self._deadline)
        try:
            return await super().wait(gen, *args, **named)
        finally:
            self._deadline = None

    def _set_timer(self, loop: asyncio.AbstractEventLoop, time: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = loop.call_at(time, self._look)

    def _look(self) -> None:
        """Shut an exchange down that has taken too long, or look again at the end of a later one's time."""
        self._timer = None
        if self.closed or self._deadline is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._deadline:
            self._set_timer(loop, self._deadline)
        elif self.has_unread:  # the server has answered: this process is late
            self._set_timer(loop, loop.time() + self._max_silence_seconds)
        else:
            self._shut_down()

    def _shut_down(self) -> None:
        line = socket.socket(fileno=self.fileno())
        try:
            line.shutdown(socket.SHUT_RDWR)
        finally:
            line.detach()  # the descriptor stays the driver's


class RecallQueue:
    """A queue that admits a few recalls at a time, in order of arrival, so that each statement stays quick.

    A wait in this queue says nothing about the database and counts against none of its limits.

    Args:
        width: maximum number of recalls at a time.
        max_wait_seconds: the longest wait.
    """

    def __init__(self, width: int, max_wait_seconds: float) -> None:
        self._places = asyncio.Semaphore(width)
        self._max_wait_seconds = max_wait_seconds
        #: Times of the last successful use of the database, and of the last recall that found no database.
        self.served_at = self._missed_at = -math.inf

    def has_served_since(self, time: float) -> bool:
        """Return whether the database was used successfully after this time."""
        return self.served_at > time

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a place and keep it until the block ends.

        Raises:
            BusyError: if no place comes free in time.
            DatabaseUnavailableError: if a recall before this one has just found no database.
        """
        queued_at = monotonic()
        try:
            async with asyncio.timeout(self._max_wait_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise BusyError from None
        try:
            if self._missed_at > queued_at:  # otherwise each recall would wait as long as the one before
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
    """Return a connection outside of the pool; wait for a server that is still starting.

    Args:
        dsn: of the database.
        variable: name of the DSN's setting, for the message.
        seconds: the longest wait.

    Raises:
        DatabaseUnavailableError: if there is no connection; the message has the reason, without a password.
    """
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, **connection_options(dsn)}
    reason = "the server does not answer"
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await AsyncConnection.connect(dsn, **options)
                except Error as error:
                    lines = map(str.strip, str(error).splitlines())
                    said = "; ".join(line for line in lines if not line.startswith(_DRIVERS_ADVICE))
                    reason = said.removeprefix("connection failed: ")[:_MAX_REASON_LENGTH]
                if not _PASSING.search(reason):
                    break
                await asyncio.sleep(_RETRY_SECONDS)
    raise DatabaseUnavailableError(
        f"no connection with {variable}: {reason.rstrip('.?')}. Start the server, or correct the DSN"
    )


async def configure(pooler: str, connection: TimeoutConnection) -> None:
    """Prepare a new connection for use, according to the setting of poolers."""
    await connection.set_autocommit(True)  # Database.transaction begins and commits
    if pooler == "transaction" or (pooler == "auto" and await is_pooled(connection)):
        # The next transaction may use another server connection, which lacks a prepared statement or has another one
        # of the same name.
        connection.prepare_threshold = None
    with suppress(ProgrammingError):  # without pgvector the pool still opens, so that the doctor can report it
        await register_vector_async(connection)
    # the dumper of lists writes text, which is five times as long
    connection.adapters.register_dumper(HalfVectors, ListBinaryDumper)


async def is_pooled(connection: AsyncConnection[Any]) -> bool:
    """Return whether the connection leads through a pooler, which reports a process number of its own to its clients.

    A single client of a pooler meets the same server process in every transaction, so nothing else shows the pooler.
    """
    return await _server_process(connection) != connection.info.backend_pid


async def pooler_mode(dsn: str) -> PoolerMode | None:
    """Return `transaction` if two clients share or change their server process, else `session`; None without a pooler.

    Raises:
        DatabaseUnavailableError: if the database cannot be reached or does not answer.
    """
    try:
        async with await _connect(dsn) as first:
            if not await is_pooled(first):
                return None
            return await _mode_of_pooler(dsn, first)
    except Error as error:
        raise typed_error(error) from None


async def _mode_of_pooler(dsn: str, first: TimeoutConnection) -> PoolerMode:
    processes: tuple[set[int], set[int]] = set(), set()
    try:
        async with await _connect(dsn) as second:
            for turn in _TURNS:
                processes[turn].add(await _server_process((first, second)[turn]))
    except OperationalError:  # the pooler reserves its one server connection for the first client
        return "session"
    is_shared = len(processes[0] | processes[1]) < 2
    is_changed = max(len(processes[0]), len(processes[1])) > 1
    if is_shared or is_changed:
        return "transaction"
    return "session"


async def _connect(dsn: str) -> TimeoutConnection:
    return await TimeoutConnection.connect(dsn, autocommit=True, prepare_threshold=None, **connection_options(dsn))


async def _server_process(connection: AsyncConnection[Any]) -> int:
    row = await (await connection.execute("select pg_backend_pid()")).fetchone()
    return int(row[0]) if row else 0
