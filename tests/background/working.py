"""Worker processes that do background work on short terms, and a look at what is left for them."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg

from mnemic.memory.background.sweep import sweep
from mnemic.service.memory import Mnemic
from mnemic.service.worker import background_work
from mnemic.state.errors import MnemicError
from mnemic.storage.queue import Pace
from mnemic.storage.schema import SERVICE_ROLE
from tests.faults.processes import Worker
from tests.support.server import Clone

#: A dead worker is missed after one and a half seconds.
SHORT = Pace(poll=0.5, heartbeat=0.3, stalled=1.5, reconnect=0.2, stop=1.0)
SWEEP_SECONDS = 0.5


async def work_forever(memory: Mnemic, log: Path, *, sweeps: bool = True) -> None:
    """Do background work in a worker process until it dies; sweep much more often than once a minute.

    Args:
        memory: of the process.
        log: file for all that the process logs.
        sweeps: whether it looks for due work by itself, too.
    """
    logging.basicConfig(filename=log, level=logging.DEBUG)
    async with background_work(memory.resources, memory.graphs, SHORT) as work:
        while True:
            if sweeps:
                with suppress(MnemicError):
                    await sweep(work)
            await asyncio.sleep(SWEEP_SECONDS)


def put_to_work(worker: Worker, log: Path, *, sweeps: bool = True) -> Worker:
    """The worker does background work from now on."""
    worker.ask(work_forever, log, sweeps=sweeps)
    return worker


def left(clone: Clone) -> tuple[int, int]:
    """Messages that are not formed, and jobs that run or wait but for the sweep; many while the database is away."""
    statement = (
        "select (select count(*) from mnemic.messages where formed_by is null),"
        " (select count(*) from mnemic_jobs.procrastinate_jobs where task_name <> 'sweep')"
    )
    with suppress(psycopg.OperationalError), clone.as_superuser() as superuser:
        row = superuser.execute(statement).fetchone()
        assert row
        return row
    return 1_000_000, 1_000_000


def deliver(clone: Clone, sessions: Sequence[tuple[str, str]], *, times: int) -> None:
    """Queue wake-ups of sessions of agents without any lock, as if one were delivered so many times at once."""
    statement = (
        "insert into mnemic_jobs.procrastinate_jobs (queue_name, task_name, args)"
        " select 'default', 'form', jsonb_build_object('agent_id', %s::text, 'scope_key', 'session:' || %s::text)"
        " from generate_series(1, %s)"
    )
    with clone.as_role(SERVICE_ROLE) as service:
        for agent, session in sessions:
            service.execute(statement, (agent, session, times))
