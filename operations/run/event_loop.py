"""Calls from threads other than the one that Mnemic's connections belong to."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, Final, TypeVar

from mnemic.state.errors import BlockedLoopError

Result = TypeVar("Result")

#: A loop that has not begun a call by then is blocked, most likely by the very call that waits for it.
STARTS_WITHIN_SECONDS: Final = 5.0


def on_loop(loop: asyncio.AbstractEventLoop | None, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """What the call returns, run on the event loop that opened Mnemic, while this thread waits.

    Raises:
        BlockedLoopError: the loop is over, or it is this thread's own and waits for this call.
    """
    if loop is None or not loop.is_running() or loop is _loop_of_this_thread():
        raise BlockedLoopError
    begun = threading.Event()

    async def begin() -> Result:
        begun.set()
        return await call()

    coming = asyncio.run_coroutine_threadsafe(begin(), loop)
    if not begun.wait(STARTS_WITHIN_SECONDS):
        coming.cancel()
        raise BlockedLoopError
    try:
        return coming.result()
    except CancelledError:
        raise BlockedLoopError from None


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
