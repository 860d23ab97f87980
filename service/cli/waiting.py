"""A message while a model is slow: the step, and the seconds since its request."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from mnemic.service.memory import Mnemic

#: Seconds of waiting before the first message, and between messages. An answer of a healthy model takes less.
FIRST: Final = 8.0
AGAIN: Final = 30.0


@asynccontextmanager
async def waiting_shown(memory: Mnemic, show: Callable[[str], object]) -> AsyncIterator[None]:
    """Show a message for a slow request to a model, until the block ends.

    Args:
        memory: the service with the models.
        show: prints a line.
    """
    watching = asyncio.create_task(_watch(memory, show))
    try:
        yield
    finally:
        watching.cancel()


async def _watch(memory: Mnemic, show: Callable[[str], object]) -> None:
    shown_at = 0.0
    while True:
        await asyncio.sleep(min(1.0, FIRST))
        now = time.monotonic()
        slow = [request for request in memory.admin.pending_requests() if now - request.since >= FIRST]
        if slow and now - shown_at >= AGAIN:
            shown_at = now
            oldest = slow[0]
            show(f"{oldest.model} has not answered {oldest.step} for {now - oldest.since:.0f} s")
