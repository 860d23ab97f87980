"""Real worker processes for tests of faults: started, asked, killed, frozen, and always cleaned up.

What happens to a worker is done from outside, by signals, by the model it asks and by its database.

    with Worker(settings) as worker:
        worker.ask("form", who)        # returns at once; the worker is busy with it
        worker.kill()                  # SIGKILL, and it is dead when this returns

Workers are forked by one process that has imported the package once: a worker opens in a tenth of a second, where a
fresh interpreter takes one and a half.
"""

import asyncio
import importlib
import multiprocessing
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from mnemic.service.memory import Mnemic
from mnemic.state.errors import DatabaseUnavailableError, MnemicError
from mnemic.state.settings import Settings
from mnemic.storage.embedded.postmaster import is_listening
from mnemic.storage.embedded.server import EmbeddedPostgres
from mnemic.storage.migrate import migrate
from tests.support.server import Clone, Server

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

#: Exit code of a worker that found no database when it started; any other failure to start is a traceback and 1.
NO_DATABASE = 3


@dataclass(frozen=True)
class Answer:
    """What a method returned, or the class of the typed error it raised; any other error ends the worker."""

    result: Any = None
    error: type[MnemicError] | None = None


def run_instead(statements: Mapping[str, str], replace: Callable[[Any, str, Any], object] = setattr) -> None:
    """Puts statements in the place of the product's, by `module.name` such as `inbox.settle`: for controls."""
    for place, statement in statements.items():
        noun, _, name = place.partition(".")
        module: Any = importlib.import_module(f"mnemic.storage.{noun}")
        assert name in module._SQL, f"{place} names no statement"
        replace(module, "_SQL", {**module._SQL, name: statement})


def serve(connection: Connection, settings: Settings, sabotage: Mapping[str, str]) -> None:
    """Performs the commands that come in, one after the other, and answers each, until the other end closes.

    Args:
        settings: all that the worker goes by; nothing of its environment counts.
        sabotage: statements to run instead of the product's.
    """
    run_instead(sabotage)
    try:
        asyncio.run(_serve(connection, settings))
    except DatabaseUnavailableError:
        raise SystemExit(NO_DATABASE) from None


async def _serve(connection: Connection, settings: Settings) -> None:
    async with Mnemic.open(settings=settings) as memory:
        with suppress(EOFError):
            while True:
                method, arguments, named = await asyncio.to_thread(connection.recv)
                try:
                    act = attrgetter(method)(memory) if isinstance(method, str) else partial(method, memory)
                    answer = Answer(result=await act(*arguments, **named))
                except MnemicError as error:
                    answer = Answer(error=type(error))
                connection.send(answer)


class WorkerDiedError(Exception):
    """The worker is dead and answers no more."""


class Worker:
    """One worker process; a context manager. Leaving it kills the process, whatever state that is in.

    It need not be awaited: commands queue until it has opened `Mnemic`, so several workers start side by side.
    """

    def __init__(self, settings: Settings, sabotage: Mapping[str, str] | None = None) -> None:
        _FORKING.set_forkserver_preload([__name__, *_IMPORTED_LATE])
        self._here, there = _FORKING.Pipe()
        self.process = _FORKING.Process(target=serve, args=(there, settings, sabotage or {}), daemon=True)
        self.process.start()
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
        assert wait([self.process.sentinel], PATIENCE_SECONDS), "nobody has killed the worker"

    @property
    def is_dead(self) -> bool:
        return bool(wait([self.process.sentinel], 0))

    def close(self) -> None:
        """Kills and reaps it."""
        self._signal(signal.SIGKILL)
        self.process.join()
        self._here.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_dead:
            return  # it is gone, and its number may be anybody's by now
        assert self.process.pid
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)


#: The fixture that starts workers on the test's database; keywords are settings, `sabotage` is for controls.
StartWorker = Callable[..., Worker]


# -- a server that may be killed


class CrashingServer:
    """An embedded server with a migrated database. What it has acknowledged must be there after each crash."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._embedded = EmbeddedPostgres(base)
        self._embedded.start()
        with psycopg.connect(self._embedded.dsn(), autocommit=True) as connection:
            connection.execute("create database mnemic")
        asyncio.run(migrate(self._embedded.dsn(dbname="mnemic")))

    @property
    def clone(self) -> Clone:
        """Its database, to be used as the tests' other ones are."""
        return Clone(server=Server(admin_dsn=self._embedded.dsn(), log=self.base / "server.log"), name="mnemic")

    def kill(self) -> None:
        """`kill -9` of the postmaster, which is dead when this returns; its other processes notice and end."""
        os.kill(int((self.base / "data" / "postmaster.pid").read_text().split("\n")[0]), signal.SIGKILL)
        directory = Path(str(conninfo_to_dict(self._embedded.dsn())["host"]))
        while is_listening(directory):  # a start that still found it there would do nothing
            time.sleep(0.001)

    def starts(self) -> int:
        """How often it was started."""
        return (self.base / "server.log").read_text().count("starting PostgreSQL")

    def restart(self) -> None:
        """Starts it again; returns when it has recovered and accepts connections."""
        self._embedded.start()

    def stop(self) -> None:
        """Stops it, whether it runs or not."""
        self._embedded.start()
        self._embedded.stop()
