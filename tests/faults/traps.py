"""Where a fault strikes: in a request to the model, or in a statement that waits for a lock.

Both lie outside of the product, which has no switch for tests.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from types import TracebackType
from typing import LiteralString, Self

import psycopg

from tests.faults.processes import PATIENCE_SECONDS
from tests.support.loopback import LoopbackModel, Request
from tests.support.loopback_wire import offered, schema_name

#: The step names of an embedding request and of a turn of a refinement; any other request has the name of the output it
#: asks for.
EMBEDDINGS = "embeddings"
REFINE = "complete_refinement"
_POLL_SECONDS = 0.01


@dataclass
class _Trap:
    step: str
    act: Callable[[], object]
    #: Requests of the step until it springs.
    left: int
    sprung: Event = field(default_factory=Event)


class TrappedModel(LoopbackModel):
    """The scripted model, which does something to somebody just before it answers."""

    def __init__(self) -> None:
        super().__init__()
        self._traps: list[_Trap] = []

    def at(self, step: str, act: Callable[[], object], *, nth: int = 1) -> Event:
        """Acts once, when the nth request of the step from now on has arrived and before it is answered.

        `act` runs in a thread of the server's; whatever it raises fails the test. The event is set when it has acted.
        """
        trap = _Trap(step, act, nth)
        self._traps.append(trap)
        return trap.sprung

    def reply_to(self, path: str, request: Request) -> tuple[int, str, bytes]:
        step = step_of(path, request)
        for trap in [trap for trap in self._traps if trap.step == step]:
            trap.left -= 1
            if trap.left == 0:
                trap.act()
                trap.sprung.set()
        return super().reply_to(path, request)


def step_of(path: str, request: Request) -> str | None:
    """Which step a request is part of."""
    if path.endswith("/embeddings"):
        return EMBEDDINGS
    return REFINE if REFINE in offered(request) else schema_name(request)


class Roadblock:
    """A lock of the superuser's that stops a transaction of the service's at a known statement.

    with Roadblock(clone.superuser_dsn, "lock table mnemic.scopes in access exclusive mode") as road:
        model.at(REFLECTIONS, road.close)
        worker.ask("form", who)
        road.await_victim()            # the worker's transaction is open, and waits
        worker.kill()
    await_no_transaction(superuser)    # leaving has opened the road
    """

    def __init__(self, dsn: str, lock: LiteralString) -> None:
        self._connection = psycopg.connect(dsn)
        self._lock = lock

    def close(self) -> None:
        """Takes the lock."""
        self._connection.execute(self._lock)

    def await_victim(self) -> None:
        """Returns when a backend waits for the lock."""
        with psycopg.connect(self._connection.info.dsn, autocommit=True) as looking:
            _until(lambda: self._stops_somebody(looking), "nobody came to the roadblock")

    def open(self) -> None:
        """Gives the lock back."""
        self._connection.rollback()

    def _stops_somebody(self, looking: psycopg.Connection) -> bool:
        stopped = "select 1 from pg_stat_activity where %s = any(pg_blocking_pids(pid))"
        return looking.execute(stopped, (self._connection.info.backend_pid,)).fetchone() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open()
        self._connection.close()


def open_transactions(superuser: psycopg.Connection) -> int:
    """Transactions of the service's role in this database, running, waiting or idle."""
    row = superuser.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and usename = 'mnemic_app'"
        " and xact_start is not null"
    ).fetchone()
    assert row is not None
    return int(row[0])


def await_no_transaction(superuser: psycopg.Connection, *, but: int = 0) -> None:
    """Returns when the service has no transaction open but so many: the server has seen that its client is dead."""
    _until(lambda: open_transactions(superuser) == but, "a transaction of the service's stays open")


def _until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(_POLL_SECONDS)
