"""Ways to kill a worker at a known point of what it does, and to let others take its work up again."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from mnemic.state.errors import ConcurrentChangeError, MnemicError
from tests.faults.processes import PATIENCE_SECONDS, Worker
from tests.faults.traps import Roadblock, TrappedModel, await_no_transaction
from tests.support.server import Clone


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


def repeat(
    workers: Sequence[Worker],
    command: Command,
    *,
    until: Callable[[], bool],
    expected: tuple[type[MnemicError], ...] = (ConcurrentChangeError,),
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
    "memories.rewrite_consolidation": (
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
    "inbox.forget_later": "select",
}
#: Takes the reflections in and leaves the text as it was.
UNWRITTEN_CONSOLIDATION = {
    "memories.rewrite_consolidation": "select id from memories where agent_id = %(agent_id)s and id = %(id)s"
}
