"""A sign of life while a model is slow: what it is asked for, and for how long."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from mnemic.service.memory import Mnemic

#: Seconds of waiting after which it is said, and after which it is said again. An answer of a healthy model takes less.
FIRST: Final = 8.0
AGAIN: Final = 30.0


@asynccontextmanager
async def waiting_shown(memory: Mnemic, show: Callable[[str], object]) -> AsyncIterator[None]:
    """Says what is waited for, until the block ends.

    Args:
        memory: whose models are watched.
        show: shows a line.
    """
    watching = asyncio.create_task(_watch(memory, show))
    try:
        yield
    finally:
        watching.cancel()


async def _watch(memory: Mnemic, show: Callable[[str], object]) -> None:
    said = 0.0
    while True:
        await asyncio.sleep(min(1.0, FIRST))
        now = time.monotonic()
        slow = [one for one in memory.admin.pending_requests() if now - one.since >= FIRST]
        if slow and now - said >= AGAIN:
            said = now
            oldest = slow[0]
            show(f"{oldest.model} has been asked for {oldest.step} for {now - oldest.since:.0f} s")
