"""Work that no answer waits for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, Final

_LOG = logging.getLogger("mnemic")


#: Turns of many sessions end at once; more formations side by side only run into a provider's limit of requests.
MOST_AT_ONCE: Final = 8


class Background:
    """What is still to be done when a turn is over, by name: one work of a name at a time.

    All of it runs on the event loop that made this, wherever it is asked for.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._running: dict[Hashable, asyncio.Task[None]] = {}

    def begin(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begins a work and returns at once; where one of this name is under way, that one goes on instead."""
        if asyncio.get_running_loop() is self._loop:
            self._begin(name, work)
        else:
            self._loop.call_soon_threadsafe(self._begin, name, work)

    def _begin(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if name in self._running:
            return
        # a context of its own: in the caller's, a graph would take itself for a part of the run that is ending
        task = self._loop.create_task(self._done(work), context=Context())
        self._running[name] = task
        task.add_done_callback(lambda done: self._over(name, done))

    async def _done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._slots:
            await work()

    def _over(self, name: Hashable, task: asyncio.Task[None]) -> None:
        del self._running[name]
        if not task.cancelled() and (error := task.exception()):
            # its kind alone: the words of an error that nobody expected may be anybody's
            _LOG.error("work in the background ended with %s", type(error).__name__)

    async def finish(self, name: Hashable = None) -> None:
        """Waits for the work of this name, or for all of it."""
        if asyncio.get_running_loop() is not self._loop:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.finish(name), self._loop))
            return
        waiting = [task for known, task in self._running.items() if name in (None, known)]
        if waiting:
            await asyncio.wait(waiting)

    async def cancel(self) -> None:
        """Ends what is under way."""
        for task in self._running.values():
            task.cancel()
        await self.finish()


@asynccontextmanager
async def background() -> AsyncIterator[Background]:
    """Leaving the block waits for all work that was begun in it; an error or an interrupt ends the work."""
    work = Background()
    try:
        yield work
        await work.finish()
    finally:
        await work.cancel()
