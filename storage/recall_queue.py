"""The queue of recalls before the pool: a few at a time, so that each statement stays quick when very many come."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from mnemic.state.errors import BusyError, DatabaseUnavailableError


class RecallQueue:
    """First come, first served. What is waited here says nothing about the database, and counts against no limit of it.

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
