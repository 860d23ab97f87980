"""An event loop in a thread of its own, which holds an asynchronous context open for synchronous callers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import wraps
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, ParamSpec, TypeVar

from mnemic.service.opening import opening_statements
from mnemic.storage.home_loop import OwnProcess

if TYPE_CHECKING:  # both need this module
    from mnemic.service.governance.administration import Administration
    from mnemic.service.memory import Mnemic
    from mnemic.service.sync import SyncAdministration, SyncMnemic

Parameters = ParamSpec("Parameters")
Opened = TypeVar("Opened")
Result = TypeVar("Result")


def in_own_thread(
    open_async: Callable[Parameters, AbstractAsyncContextManager[Opened]],
    wrap: Callable[[Opened], Result],
) -> Callable[Parameters, AbstractContextManager[Result]]:
    """Return a function that opens the same on an event loop in a thread of its own.

    Args:
        open_async: opens the asynchronous object.
        wrap: returns the synchronous object for it.
    """

    @wraps(open_async)
    def open_sync(*args: Parameters.args, **kwargs: Parameters.kwargs) -> AbstractContextManager[Result]:
        return _OwnThread(open_async(*args, **kwargs), wrap, open_async.__qualname__)

    return open_sync


def to_sync_memory(memory: "Mnemic") -> "SyncMnemic":
    """Return the same memory with methods that wait for it."""
    from mnemic.service.sync import SyncMnemic

    return SyncMnemic(memory)


def to_sync_administration(administration: "Administration") -> "SyncAdministration":
    """Return the same administration with methods that wait for it."""
    from mnemic.service.sync import SyncAdministration

    return SyncAdministration(administration)


class _Running(NamedTuple):
    """The thread's event loop, the task that holds the context, and the signal that ends it."""

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[None]
    stop: asyncio.Event


class _OwnThread(AbstractContextManager[Result], Generic[Opened, Result]):
    """Opens an asynchronous context in a thread of its own, and closes it there."""

    def __init__(
        self, opening: AbstractAsyncContextManager[Opened], wrap: Callable[[Opened], Result], owner: str
    ) -> None:
        self._opening = opening
        self._wrap = wrap
        self._owner = owner
        self._running: Future[_Running] = Future()
        self._opened: Future[Opened] = Future()
        self._failure: BaseException | None = None
        self._process = OwnProcess()
        # a program that ends without closing it does not wait for it
        self._thread = Thread(target=self._run, name="mnemic", daemon=True)

    def __enter__(self) -> Result:
        self._thread.start()
        try:
            return self._wrap(self._opened.result())
        except BaseException:  # it could not be opened, or the caller was interrupted
            self._end(cancel=True)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if not self._process.is_current:  # a fork has no such thread
            return
        self._end(cancel=error is not None)
        if error is None and self._failure is not None:
            raise self._failure

    def __aenter__(self) -> NoReturn:
        raise TypeError(f"an `async with` statement cannot open this: {opening_statements(self._owner)}")

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: an `async with` statement looks for this method before it calls `__aenter__`."""

    def _end(self, *, cancel: bool) -> None:
        """End the context and the thread; after an error of the block, cancel the background work."""
        running = self._running.result()
        end = running.task.cancel if cancel else running.stop.set
        with suppress(RuntimeError):  # the loop has ended by itself
            running.loop.call_soon_threadsafe(end)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._hold())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self._failure = error
            waited_for: tuple[Future[Any], ...] = (self._running, self._opened)
            for future in waited_for:
                if not future.done():
                    future.set_exception(error)

    async def _hold(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        running = _Running(asyncio.get_running_loop(), task, asyncio.Event())
        self._running.set_result(running)
        async with self._opening as opened:
            self._opened.set_result(opened)
            await running.stop.wait()
