"""Real worker processes for tests of faults: started, asked, killed, frozen, and always cleaned up.

    with Worker(settings) as worker:
        worker.ask("form", who)        # returns at once; the worker is busy with it
        worker.kill()                  # SIGKILL, and it is dead when this returns

Workers are forked by one process that has imported the package once: a worker opens in a tenth of a second, where a
fresh interpreter takes one and a half.
"""

import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, Self

from mnemic.state.settings import Settings
from tests.faults import worker as child
from tests.faults.worker import Answer

#: Far beyond what anything here takes; whoever waits longer has hung, and the test fails.
PATIENCE_SECONDS = 60

#: What the package, or a library of its, imports at the first request to a model; here it would be at each worker's.
_IMPORTED_LATE = (
    "langchain_openai",
    "openai.resources.chat",
    "openai.resources.embeddings",
    "numpy",
    "anyio._backends._asyncio",
)

_FORKING = multiprocessing.get_context("forkserver")


class WorkerDiedError(Exception):
    """The worker is dead and answers no more."""


class Worker:
    """One worker process; a context manager. Leaving it kills the process, whatever state that is in.

    It need not be awaited: commands queue until it has opened `Mnemic`, so several workers start side by side.
    """

    def __init__(self, settings: Settings, sabotage: Mapping[str, str] | None = None) -> None:
        _FORKING.set_forkserver_preload([child.__name__, *_IMPORTED_LATE])
        self._here, there = _FORKING.Pipe()
        self._process = _FORKING.Process(target=child.serve, args=(there, settings, sabotage or {}), daemon=True)
        self._process.start()
        there.close()

    def ask(self, method: str | Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> None:
        """Hands over a command, a method of `Mnemic` and its arguments; `answer` waits for what comes of it.

        A function of a test's own is given the worker's `Mnemic` first.

        Raises:
            WorkerDiedError: nobody is there to hear it.
        """
        try:
            self._here.send((method, arguments, named))
        except ConnectionError:
            raise WorkerDiedError from None

    def answer(self, timeout: float = PATIENCE_SECONDS) -> Answer:
        """What came of the oldest command without an answer: the worker's acknowledgement.

        Raises:
            WorkerDiedError: it died instead.
            TimeoutError: it is still busy, or frozen.
        """
        if not self._here.poll(timeout):
            raise TimeoutError(f"no answer within {timeout} s")
        try:
            answer: Answer = self._here.recv()
        except (EOFError, ConnectionError):
            raise WorkerDiedError from None
        return answer

    def do(self, method: str | Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        """The result of a command that must succeed."""
        self.ask(method, *arguments, **named)
        answer = self.answer()
        assert answer.error is None, answer.error
        return answer.result

    def kill(self) -> None:
        """`kill -9`; dead when this returns. May be called from any thread."""
        self._signal(signal.SIGKILL)
        self.await_death()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing at all until `thaw`, but its connections stay open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def await_death(self) -> None:
        """Returns when somebody has killed it."""
        assert wait([self._process.sentinel], PATIENCE_SECONDS), "nobody has killed the worker"

    @property
    def is_dead(self) -> bool:
        return bool(wait([self._process.sentinel], 0))

    @property
    def exit_code(self) -> int | None:
        """None while it lives; minus the signal's number when one ended it."""
        return self._process.exitcode

    def close(self) -> None:
        """Kills and reaps it."""
        self._signal(signal.SIGKILL)
        self._process.join()
        self._here.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_dead:
            return  # it is gone, and its number may be anybody's by now
        assert self._process.pid
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)


#: The fixture that starts workers on the test's database; keywords are settings, `sabotage` is for controls.
StartWorker = Callable[..., Worker]
