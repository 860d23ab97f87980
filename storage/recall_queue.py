"""The queue of recalls before the pool: a few at a time, so that each statement stays quick when very many come."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
        #: When a recall last found no database at all.
        self._missed_at = -math.inf

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a place and keeps it until the block ends.

        Raises:
            BusyError: none came free in time.
            DatabaseUnavailableError: a recall that stood before this one has just found no database.
        """
        clock = asyncio.get_running_loop().time
        came_at = clock()
        try:
            async with asyncio.timeout(self._patience):
                await self._places.acquire()
        except TimeoutError:
            raise BusyError from None
        try:
            if self._missed_at > came_at:  # or each would wait in vain for as long as the one before
                raise DatabaseUnavailableError
            try:
                yield
            except DatabaseUnavailableError as error:
                if error.sqlstate is None:  # else the server did answer
                    self._missed_at = clock()
                raise
        finally:
            self._places.release()
