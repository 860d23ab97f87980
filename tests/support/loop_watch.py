"""Watches an event loop: how long its thread works in one go, while nothing else of the loop gets its turn."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass
class Longest:
    """The callback that kept the loop's thread at work for longest."""

    seconds: float = 0.0
    #: The innermost function that its task went on with.
    name: str = ""


@asynccontextmanager
async def longest_callback() -> AsyncIterator[Longest]:
    """Measures every callback of the running loop until the block ends.

    In CPU time of the loop's thread, for wall time would tell of the machine: neither other processes nor the threads
    beside the loop count. The garbage collector does not either: it works for whoever allocates next.
    """
    longest = Longest()
    thread, run, collecting = threading.get_ident(), asyncio.Handle._run, 0.0

    def measured(handle: asyncio.Handle) -> None:
        if threading.get_ident() != thread:
            run(handle)
            return
        name, before, begun = _name(handle), collecting, time.thread_time()
        run(handle)
        seconds = time.thread_time() - begun - (collecting - before)
        if seconds > longest.seconds:
            longest.seconds, longest.name = seconds, name

    def collected(phase: str, _: dict[str, int]) -> None:
        nonlocal collecting
        if threading.get_ident() == thread:
            collecting += time.thread_time() if phase == "stop" else -time.thread_time()

    asyncio.Handle._run = measured  # type: ignore[method-assign,assignment]  # its owner is its only argument
    gc.callbacks.append(collected)
    try:
        await asyncio.sleep(0)  # the callback that began to watch is not watched from its beginning
        yield longest
        await asyncio.sleep(0)
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        gc.callbacks.remove(collected)


def _name(handle: asyncio.Handle) -> str:
    task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    if not isinstance(task, asyncio.Task):
        return repr(handle)
    inner = task.get_coro()
    while (awaited := getattr(inner, "cr_await", None)) is not None and hasattr(awaited, "cr_code"):
        inner = awaited
    return getattr(inner, "__qualname__", repr(inner))
