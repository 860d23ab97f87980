"""Work that no answer waits for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any


class Background:
    """What is still to be done when a turn is over, by name: one work of a name at a time."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[None]] = {}

    def begin(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begins a work and returns at once; where one of this name is under way, that one goes on instead."""
        if name in self._running:
            return
        # a context of its own: in the caller's, a graph would take itself for a part of the run that is ending
        task = asyncio.get_running_loop().create_task(work(), context=Context())
        self._running[name] = task
        task.add_done_callback(lambda _: self._running.pop(name))

    async def finish(self, name: Hashable = None) -> None:
        """Waits for the work of this name, or for all of it."""
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
