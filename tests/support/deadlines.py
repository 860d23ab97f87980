"""Deadlines that end when a test lets them, so that no test races with the clock of a busy machine."""

import asyncio
from collections.abc import Callable

import pytest


def expiring(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Callable[[], None]:
    """Keep deadlines of this many seconds from ending by the clock.

    Returns:
        A function for any thread that ends the one that is running.
    """
    usual, loop = asyncio.timeout, asyncio.get_running_loop()
    running: list[asyncio.Timeout] = []

    def timeout(delay: float | None) -> asyncio.Timeout:
        limit = usual(None if delay == seconds else delay)
        if delay == seconds:
            running.append(limit)
        return limit

    def expire() -> None:
        loop.call_soon_threadsafe(lambda: running[-1].reschedule(loop.time()))

    monkeypatch.setattr(asyncio, "timeout", timeout)
    return expire
