"""Background work after a turn, on the event loop that opened Mnemic."""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from functools import partial
from typing import Any, Final

from mnemic.storage.home_loop import HomeLoop

_LOG = logging.getLogger("mnemic")

#: Turns of many sessions end at once; more formations side by side only run into a provider's limit of requests.
MAX_AT_ONCE: Final = 8
#: Seconds after which work that has not ended is cancelled again: giving a lease back takes milliseconds.
CANCEL_AGAIN_SECONDS: Final = 2.0


def frames_of(error: BaseException) -> str:
    """Return the kinds of an error and of its causes, each with file, line and function of its frames.

    Messages and values of variables are left out: those of an unexpected error may hold a user's text.
    """
    lines: list[str] = []
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        lines.append(type(current).__name__)
        for frame, line in traceback.walk_tb(current.__traceback__):
            lines.append(f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}")
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)
    return "\n".join(lines)


class Background:
    """Work after the end of a turn, by name: one work of a name at a time.

    All of it runs on the event loop that made this object, whichever thread begins it.
    """

    def __init__(self) -> None:
        self._home = HomeLoop()
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._running: dict[Hashable, asyncio.Task[None]] = {}

    def begin(
        self, name: Hashable, work: Callable[[], Coroutine[Any, Any, None]], ids: Mapping[str, object] | None = None
    ) -> None:
        """Begin a work and return at once; if one of this name is under way, that one goes on instead.

        Args:
            name: the name of the work.
            work: the coroutine function to run.
            ids: fields of its records in the log.

        Raises:
            ForkedProcessError: another process made this.
            ClosedError: the loop that made this has ended.
        """
        if not self._home.is_current:
            self._home.call_soon(partial(self.begin, name, work, ids))
        elif name not in self._running:
            # a context of its own: in the caller's context a graph would count as a part of the run that is ending
            task = self._running[name] = asyncio.get_running_loop().create_task(self._done(work), context=Context())
            task.add_done_callback(lambda done: self._over(name, done, ids))

    async def _done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._slots:
            await work()

    def _over(self, name: Hashable, task: asyncio.Task[None], ids: Mapping[str, object] | None) -> None:
        del self._running[name]
        if not task.cancelled() and (error := task.exception()):
            _LOG.error("Work in the background ended with %s", frames_of(error), extra=ids)

    async def finish(self, name: Hashable = None) -> None:
        """Wait for the work of this name, or for all work."""
        await self._home.run_async(partial(self._finish, name))

    async def _finish(self, name: Hashable) -> None:
        waiting = [task for known, task in self._running.items() if name in (None, known)]
        if waiting:
            await asyncio.wait(waiting)

    async def cancel(self) -> None:
        """Cancel all work, and wait for its end.

        A cancellation is repeated: on Python 3.11 `asyncio.wait_for` loses one that comes as the awaited work ends.
        """
        while waiting := list(self._running.values()):
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting, timeout=CANCEL_AGAIN_SECONDS)


@asynccontextmanager
async def background() -> AsyncIterator[Background]:
    """Wait at the end of the block for all work begun in it; cancel it after an error or an interrupt."""
    work = Background()
    try:
        yield work
        await work.finish()
    finally:
        await work.cancel()
