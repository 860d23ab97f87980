"""Threads for work that would block the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: The threads of each event loop.
_THREADS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor]] = WeakKeyDictionary()


async def in_thread(
    function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Run a function in a thread, as `asyncio.to_thread` does, but not in one of the threads that a host uses, too.

    Each of those may wait for this call, such as that of an agent that is invoked with `asyncio.to_thread`.
    """
    loop = asyncio.get_running_loop()
    threads = _THREADS.get(loop)
    if threads is None:
        threads = _THREADS[loop] = ThreadPoolExecutor(thread_name_prefix="mnemic")
    call = partial(copy_context().run, partial(function, *args, **kwargs))
    try:
        running = loop.run_in_executor(threads, call)
    except RuntimeError:  # the interpreter is ending, and starts no more threads
        return call()
    return await running
