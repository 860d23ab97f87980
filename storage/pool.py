"""The pool of connections: how they are made, checked and lent; and the queue of recalls before it."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from time import monotonic
from typing import Any, Final, LiteralString

from pgvector.psycopg import register_vector_async
from psycopg import AsyncClientCursor, AsyncConnection, Error, ProgrammingError
from psycopg.types.array import ListBinaryDumper
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from mnemic.state.errors import BusyError, DatabaseUnavailableError
from mnemic.state.settings import Settings
from mnemic.storage.connection import PatientConnection, connection_options, is_pooled
from mnemic.storage.failures import typed_error
from mnemic.storage.transaction import HalfVectors

#: Our transactions wait for no model and last milliseconds: one that stands still for so long belongs to a frozen
#: process or a cut network, and must not keep an agent's head from everybody else.
IDLE_SECONDS: Final = 5.0
#: The wait for an agent's head, which such a process may keep for IDLE_SECONDS; a save that gave up before would throw
#: away what models were paid for.
HEAD_SECONDS: Final = 10.0


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
        self._served_at = self._missed_at = -math.inf

    def note_served(self) -> None:
        """The database has just done what it was asked for."""
        self._served_at = monotonic()

    def has_served_since(self, moment: float) -> bool:
        """Whether it did after this moment, so that it is there, however long somebody else waits."""
        return self._served_at > moment

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


class Pool:
    """Connections of one role, lent for one transaction each.

    Args:
        dsn: of that role.
        settings: its limits.
        revive: sees to it that a server of our own runs; called in a thread before each connection is made.
    """

    def __init__(self, dsn: str, settings: Settings, *, revive: Callable[[], None] | None = None) -> None:
        async def revived() -> str:
            if revive:
                await asyncio.to_thread(revive)
            return dsn

        self.connections: AsyncConnectionPool[Any] = AsyncConnectionPool(
            revived,
            connection_class=PatientConnection,
            kwargs=connection_options(dsn),
            min_size=1,
            max_size=settings.pool_size,
            timeout=settings.pool_timeout_seconds,
            # by default the pauses between two attempts grow for five minutes, past the end of an outage; a pool that
            # has given up tries again at once for the next who asks
            reconnect_timeout=settings.pool_timeout_seconds,
            configure=self._configure,
            check=self._still_there,
            open=False,
            name="mnemic",
        )
        self._settings = settings
        #: Recalls wait here for their turn: the other half of the pool is for writes.
        self.recalls = RecallQueue(max(1, settings.pool_size // 2), settings.pool_timeout_seconds)

    @asynccontextmanager
    async def transaction(
        self, patience: float, begin: LiteralString, values: Mapping[str, str]
    ) -> AsyncIterator[AsyncConnection]:
        """Commits at the end; after an error the pool rolls back."""
        async with self.connected(patience) as connection:
            await AsyncClientCursor(connection).execute(begin, values)
            yield connection
            await connection.commit()

    @asynccontextmanager
    async def connected(self, patience: float) -> AsyncIterator[PatientConnection]:
        """A connection whose statements take so many seconds at most; its errors are typed."""
        try:
            async with AsyncExitStack() as borrowed:
                connection = await self._borrow(borrowed, patience)
                with connection.within(patience):
                    yield connection
            self.recalls.note_served()
        except (Error, UnicodeEncodeError) as error:
            raise typed_error(error) from None

    async def _borrow(self, borrowed: AsyncExitStack, patience: float) -> PatientConnection:
        """A connection, waited for longer than patience where others are served meanwhile: the database is not away."""
        longest = self._settings.pool_timeout_seconds
        last = monotonic() + longest
        while True:
            asked_at = monotonic()
            try:
                return await borrowed.enter_async_context(self.connections.connection(min(patience, longest)))
            except PoolTimeout:
                if monotonic() >= last or not self.recalls.has_served_since(asked_at):
                    raise

    async def _configure(self, connection: PatientConnection) -> None:
        await connection.set_autocommit(True)  # a transaction lasts exactly as long as scoped()
        if self._settings.pooler == "transaction" or (self._settings.pooler == "auto" and await is_pooled(connection)):
            # the next transaction may meet a server connection that lacks the statement, or has another's of that name
            connection.prepare_threshold = None
        with suppress(ProgrammingError):  # without pgvector the pool opens all the same, so that the doctor can say so
            await register_vector_async(connection)
        # a list's own writes text, five times as long
        connection.adapters.register_dumper(HalfVectors, ListBinaryDumper)

    async def _still_there(self, connection: PatientConnection) -> None:
        """Keeps connections that the server has ended from the next transaction; asks only where a goodbye can be read.

        Each idle connection of a restarted server would cost somebody an error otherwise, and a failed run its lease.
        """
        if connection.has_unread:
            # the others at once, for the pool pauses longer after each that it finds dead
            await self.connections.check()
            await AsyncConnectionPool.check_connection(connection)

    def limits(self, patience: float) -> dict[str, str]:
        """The time limits of a transaction, as its first statements set them."""
        lock = self._settings.lock_timeout_seconds
        limits = {"statement": patience, "lock": lock, "head": max(lock, HEAD_SECONDS), "idle": IDLE_SECONDS}
        # rounded up, for zero would be no limit at all
        return {name: f"{math.ceil(seconds * 1000)}ms" for name, seconds in limits.items()}
