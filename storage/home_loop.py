"""The event loop that opened the database, and calls to it from other threads and other event loops."""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from mnemic.state.errors import BlockedLoopError, ClosedError, ForkedProcessError, OtherLoopError

Result = TypeVar("Result")
#: A call to the home loop.
Call = Callable[[], Coroutine[Any, Any, Result]]

#: A loop that runs no callback for so long is blocked, most likely by the very call that waits for it.
ANSWERS_WITHIN_SECONDS: Final = 5.0
#: Longest wait for the end of a call that an interrupt has cancelled: to release a lease takes milliseconds.
CANCELLED_WITHIN_SECONDS: Final = 5.0


class OwnProcess:
    """The process in which this object was made."""

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in that process."""
        return self._id == os.getpid()

    def require(self) -> None:
        """Refuse a caller in another process.

        Raises:
            ForkedProcessError: if the caller runs in a fork of that process.
        """
        if not self.is_current:
            raise ForkedProcessError


class HomeLoop:
    """The running event loop; connections, locks and background work belong to it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = OwnProcess()
        self._is_closed = False

    @property
    def is_own_process(self) -> bool:
        """Whether the caller runs in the process of this loop, and not in a fork of it."""
        return self._process.is_current

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this loop."""
        with suppress(RuntimeError):  # no loop runs in this thread
            return asyncio.get_running_loop() is self._loop
        return False

    def close(self) -> None:
        """Refuse all later calls."""
        self._is_closed = True

    def require(self) -> None:
        """Refuse a caller that does not run on this loop.

        Raises:
            ForkedProcessError: if another process opened Mnemic.
            ClosedError: if Mnemic is closed.
            OtherLoopError: if the caller runs on another loop.
        """
        self._require_open()
        if not self.is_current:
            raise OtherLoopError

    def run(self, call: Call[Result]) -> Result:
        """Run a call on this loop while the caller's thread waits, and return its result.

        An interrupt, such as Ctrl-C, cancels the call.

        Raises:
            BlockedLoopError: if the loop does not run the call, since it waits for this thread.
            ClosedError, ForkedProcessError: as `require`.
        """
        if self.is_current:
            raise BlockedLoopError
        pending = _PendingCall(call)
        future = self._start(pending)
        try:
            while not concurrent.futures.wait([future], ANSWERS_WITHIN_SECONDS).done:
                self._require_answer(pending)
            return _result_of(future)
        except BaseException:
            if future.cancel() and pending.has_begun:
                pending.ended.wait(CANCELLED_WITHIN_SECONDS)
            raise

    async def run_async(self, call: Call[Result]) -> Result:
        """Await a call on this loop, from this or another loop, and return its result.

        Raises:
            BlockedLoopError: if the loop does not run the call, since it waits for the caller.
            ClosedError, ForkedProcessError: as `require`.
        """
        if self.is_current:
            self._require_open()
            return await call()
        pending = _PendingCall(call)
        future = self._start(pending)
        waiter = asyncio.wrap_future(future)
        try:
            while not (await asyncio.wait([waiter], timeout=ANSWERS_WITHIN_SECONDS))[0]:
                self._require_answer(pending)
        finally:
            waiter.cancel()
        return _result_of(future)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call a function on this loop, without waiting for it.

        Raises:
            ClosedError, ForkedProcessError: as `require`.
        """
        self._require_open()
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # it was closed meanwhile
            raise ClosedError from None

    def _start(self, pending: "_PendingCall[Result]") -> concurrent.futures.Future[Result]:
        self._require_open()
        work = pending.run()
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # it was closed meanwhile
            work.close()
            raise ClosedError from None

    def _require_open(self) -> None:
        self._process.require()
        if self._is_closed or not self._loop.is_running():
            raise ClosedError

    def _require_answer(self, pending: "_PendingCall[Any]") -> None:
        """Refuse to wait longer, if the loop has run no callback since the last look."""
        if not pending.answered.is_set():
            self._require_open()
            raise BlockedLoopError
        pending.answered.clear()
        self.call_soon(pending.answered.set)


class _PendingCall(Generic[Result]):
    """A call that another thread or loop waits for."""

    def __init__(self, call: Call[Result]) -> None:
        self._call = call
        self.has_begun = False
        #: Whether the loop has run a callback since the caller's last look.
        self.answered = threading.Event()
        self.ended = threading.Event()

    async def run(self) -> Result:
        self.has_begun = True
        self.answered.set()
        try:
            return await self._call()
        finally:
            self.ended.set()


def _result_of(future: concurrent.futures.Future[Result]) -> Result:
    try:
        return future.result()
    except concurrent.futures.CancelledError:  # the loop has ended
        raise ClosedError from None
