"""Where a fault strikes: in a request to the model, or in a statement that waits for a lock; and who is killed there.

All of it lies outside of the product, which has no switch for tests.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Timer
from typing import Any, LiteralString, Self

import psycopg

from mnemic.state.errors import ConcurrentChangeError, MnemicError, RefinementRunningError
from tests.faults.processes import PATIENCE_SECONDS, CrashingServer, Worker
from tests.support.loopback import LoopbackModel, Request, offered, schema_name
from tests.support.server import Clone

#: The step names of an embedding request and of a turn of a refinement; any other request has the name of the output it
#: asks for.
EMBEDDINGS = "embeddings"
REFINE = "complete_refinement"
_POLL_SECONDS = 0.01
#: Ends every connection of the service's, in whatever transaction that is; returns when they are gone.
CUT = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
    " where datname = current_database() and usename = 'mnemic_app'"
)


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
            wait_until(lambda: self._stops_somebody(looking), "nobody came to the roadblock")

    def open(self) -> None:
        """Gives the lock back."""
        self._connection.rollback()

    def _stops_somebody(self, looking: psycopg.Connection) -> bool:
        stopped = "select 1 from pg_stat_activity where %s = any(pg_blocking_pids(pid))"
        return looking.execute(stopped, (self._connection.info.backend_pid,)).fetchone() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        self._connection.close()


def await_no_transaction(superuser: psycopg.Connection) -> None:
    """Returns when the service has no transaction open: the server has seen that its client is dead."""
    is_open = (
        "select 1 from pg_stat_activity where datname = current_database() and usename = 'mnemic_app'"
        " and xact_start is not null"
    )
    wait_until(lambda: superuser.execute(is_open).fetchone() is None, "a transaction of the service's stays open")


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    """Returns when it is so; what stays otherwise for very long fails the test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(_POLL_SECONDS)


# -- ways to kill a worker there, and to let others take its work up again


@dataclass(frozen=True)
class Command:
    """A method of `Mnemic` and its arguments, asked for insistently."""

    method: str
    arguments: tuple[Any, ...]

    def ask(self, worker: Worker) -> None:
        worker.ask(self.method, *self.arguments, force=True)


@dataclass(frozen=True)
class Scene:
    """Whom a fault strikes, and what it takes to strike."""

    victim: Worker
    model: TrappedModel
    db: Clone
    superuser: psycopg.Connection


#: Gives the victim something to do, and returns once it is dead and the server knows it.
Strike = Callable[[Scene], None]
#: What the others are asked for, and when it is done.
Finish = tuple[Command, Callable[[psycopg.Connection], bool]]
#: The fixture by which one worker dies and others do its work again.
Survive = Callable[..., Any]


def in_request(step: str, command: Command, *, nth: int = 1) -> Strike:
    """The victim dies while the model works on the nth request of a step."""

    def strike(scene: Scene) -> None:
        scene.model.at(step, scene.victim.kill, nth=nth)
        command.ask(scene.victim)
        scene.victim.await_death()

    return strike


def at_lock(lock: LiteralString, command: Command, *, after: str | None = None, nth: int = 1) -> Strike:
    """The victim dies where it waits for a lock, taken in the nth request of a step, or before it begins."""

    def strike(scene: Scene) -> None:
        with Roadblock(scene.db.superuser_dsn, lock) as road:
            if after:
                scene.model.at(after, road.close, nth=nth)
            else:
                road.close()
            command.ask(scene.victim)
            road.await_victim()
            scene.victim.kill()
        await_no_transaction(scene.superuser)

    return strike


def freeze_in(model: TrappedModel, step: str, command: Command, sleeper: Worker, *, nth: int = 1) -> None:
    """The worker stands still while the model works for it; its lease runs on."""
    frozen = model.at(step, sleeper.freeze, nth=nth)
    command.ask(sleeper)
    assert frozen.wait(30)


def repeat(
    workers: Sequence[Worker],
    command: Command,
    *,
    until: Callable[[], bool],
    expected: tuple[type[MnemicError], ...] = (ConcurrentChangeError, RefinementRunningError),
) -> None:
    """Gives all workers the same command at once, again and again until it is done; at least once.

    Args:
        expected: errors that a worker may answer with.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    done = False
    while not done:
        assert time.monotonic() < deadline, f"{command.method} does not get done"
        for worker in workers:
            command.ask(worker)
        for worker in workers:
            error = worker.answer().error
            assert error is None or issubclass(error, expected), error
        done = until()
        time.sleep(0 if done else 0.05)


# -- faults that strike one of several workers, or what they all need

#: Past a lease of one or two seconds.
FROZEN_SECONDS = 2.5

Fault = Callable[[Sequence[Worker], random.Random], object]


def kill_worker(workers: Sequence[Worker], chance: random.Random) -> None:
    """`kill -9` of a worker, whatever it does."""
    chance.choice(workers).kill()


def freeze_worker(workers: Sequence[Worker], chance: random.Random) -> None:
    """A worker stands still until its lease is gone, and goes on as if nothing had been."""
    worker = chance.choice(workers)
    worker.freeze()
    Timer(FROZEN_SECONDS, worker.thaw).start()


def kill_database(server: CrashingServer) -> Fault:
    """`kill -9` of the database, which is away for a moment."""

    def strike(_: Sequence[Worker], chance: random.Random) -> None:
        server.kill()
        time.sleep(chance.uniform(0, 0.3))
        server.restart()

    return strike


def cut_connections(clone: Clone) -> Fault:
    """The server ends every connection of the service's, in whatever transaction that is."""

    def strike(_: Sequence[Worker], __: random.Random) -> None:
        with clone.as_superuser() as superuser:
            superuser.execute(CUT)

    return strike


# -- statements made worse on purpose, for the controls: each is what a careless author might have written

#: Settles what another run has settled, and indexes its messages again without a complaint.
UNFENCED_FORMATION = {
    "inbox.settle": (
        "update messages set formed_by = %(op_id)s where agent_id = %(agent_id)s and id = any(%(ids)s) returning id"
    ),
    "inbox.index_messages": "select",
}
#: Rewrites a text that is not the version it read, and takes in what another text holds already.
UNFENCED_CONSOLIDATION = {
    "memories.rewrite": (
        "update memories set content = %(content)s where agent_id = %(agent_id)s and id = %(id)s returning id"
    ),
    "memories.absorb": (
        "update memories set state = 'absorbed', absorbed_at = clock_timestamp(),"
        " consolidated_into = %(consolidation_id)s where agent_id = %(agent_id)s and id = any(%(ids)s) returning id"
    ),
}
#: Stores what it formed and leaves the messages as they were, as if settling them were another operation.
UNSETTLED_FORMATION = {
    "inbox.settle": "select id from messages where agent_id = %(agent_id)s and id = any(%(ids)s)",
    "inbox.index_messages": "select",
}
#: Takes the reflections in and leaves the text as it was.
UNWRITTEN_CONSOLIDATION = {"memories.rewrite": "select id from memories where agent_id = %(agent_id)s and id = %(id)s"}
