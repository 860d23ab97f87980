"""The queue of background jobs: procrastinate on tables of its own in the same database, through a small pool.

A job in the queue is a wake-up: job, agent and scope key. Its work is read when it runs, so
that a lost wake-up costs a minute and a doubled one nothing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from psycopg import AsyncConnection, Error
from psycopg_pool import AsyncConnectionPool

from mnemic.state.background import QueuedJob, Target
from mnemic.state.errors import DatabaseUnavailableError, InvalidInputError, MnemicError
from mnemic.storage.connection import configure, connection_options, has_unread, is_pooled
from mnemic.storage.database import Database
from mnemic.storage.failures import typed_error
from mnemic.storage.transaction import load_statements

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.jobs import Job

    from mnemic.storage.job_manager import TolerantJobManager

_LOG = logging.getLogger("mnemic")
_SWEEP: Final = "sweep"
_SQL = load_statements("queue")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a worker looks, and how long it waits, in seconds."""

    #: Between two looks for jobs that a notification did not announce.
    poll: float = 15.0
    heartbeat: float = 15.0
    #: Without a heartbeat, after which the jobs of a worker are given to others: two may be late.
    stalled: float = 45.0
    #: Before a worker that lost the database connects again.
    reconnect: float = 2.0
    #: For jobs that run, when a worker stops; then they are queued again. Kubernetes kills after 30.
    stop: float = 20.0


#: That of every process.
PACE: Final = Pace()

#: Does one job on one target.
Run = Callable[[str, Target], Awaitable[None]]


class JobQueue:
    """The queue of one database, open between `open_queue` and its end."""

    def __init__(self, app: "App", manager: "TolerantJobManager", database: Database, pace: Pace) -> None:
        self._app = app
        self._manager = manager
        self._database = database
        self._pace = pace
        self._stopping = asyncio.Event()

    async def wake(self, job: str, targets: Iterable[Target]) -> int:
        """Queue a job for each target that has none waiting, in this order; return how many were queued.

        Raises:
            DatabaseUnavailableError: The database cannot be reached.
        """
        agents: list[str] = []
        scope_keys: list[str] = []
        for target in targets:
            agents.append(target.agent_id)
            scope_keys.append(target.scope_key)
        if not agents:
            return 0
        values = {"job": job, "agents": agents, "scope_keys": scope_keys}
        with _typed():
            return len(await self._app.connector.execute_query_all_async(query=_SQL["wake"], **values))

    async def jobs(self) -> list[QueuedJob]:
        """Return the jobs that run, then those that wait, in the order in which they are taken.

        Raises:
            DatabaseUnavailableError: The database cannot be reached.
        """
        with _typed():
            # in one statement: a job that is taken between two would be in neither
            listed = await self._manager.list_jobs_async()
        queued: list[QueuedJob] = []
        for job in listed:
            if job.task_name != _SWEEP and job.status in ("doing", "todo"):
                queued.append(_queued(job))
        return sorted(queued, key=lambda job: job.status != "running")

    async def cancel(self, job_id: int) -> None:
        """Take a waiting job out of the queue, or stop one that runs; its lease is released.

        Raises:
            InvalidInputError: No such job waits or runs.
            DatabaseUnavailableError: The database cannot be reached.
        """
        with _typed():
            found = await self._manager.cancel_job_by_id_async(job_id, abort=True, delete_job=True)
        if not found:
            raise InvalidInputError(f"no job {job_id} waits or runs: `mnemic jobs` lists them")

    async def work(self, jobs: Iterable[str], run: Run, sweep: Callable[[], Awaitable[None]], *, at_once: int) -> None:
        """Do jobs until `stop` is called; then finish those that run, or queue those again that take too long.

        Args:
            jobs: names of all jobs.
            run: does one of them.
            sweep: looks for due work, once a minute in one of all processes.
            at_once: jobs side by side.
        """
        self._register(jobs, run, sweep)
        while not self._stopping.is_set():
            try:
                with _typed():
                    await self._manager.requeue_lost(self._pace.stalled)
                    await self._work_until_lost(at_once)
            except MnemicError as error:
                _LOG.warning("Background work pauses for %.0f seconds: %s", self._pace.reconnect, error)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.reconnect):
                    await self._stopping.wait()

    def stop(self) -> None:
        """End `work`.

        A cancellation would not do: on Python 3.11 `asyncio.wait_for`, with which the pool waits for a connection,
        loses one that comes as the connection does; and a second one would break off the jobs that run.
        """
        self._stopping.set()

    async def drain(self, jobs: Iterable[str], run: Run, *, at_once: int) -> None:
        """Do the jobs that wait, and those that they queue, until none is left but those that wait for other workers.

        Raises:
            DatabaseUnavailableError: The database cannot be reached.
        """
        self._register(jobs, run, None)
        before: list[int] | None = None
        with _typed():
            await self._manager.requeue_lost(self._pace.stalled)
            # a round ends while a job waits for the lock of one that runs
            while (waiting := [job.id for job in await self.jobs()]) and waiting != before:
                await self._app.run_worker_async(
                    wait=False, concurrency=at_once, listen_notify=False, install_signal_handlers=False
                )
                before = waiting

    def _register(self, jobs: Iterable[str], run: Run, sweep: Callable[[], Awaitable[None]] | None) -> None:
        for name in jobs:
            if name not in self._app.tasks:
                self._app.task(name=name)(_as_task(run, name))
        if sweep and _SWEEP not in self._app.tasks:

            async def swept(timestamp: int) -> None:
                await sweep()

            task = self._app.task(name=_SWEEP, lock=_SWEEP, queueing_lock=_SWEEP)(swept)
            self._app.periodic(cron="* * * * *")(task)

    async def _work_until_lost(self, at_once: int) -> None:
        from procrastinate.worker import Worker

        worker: Any = Worker(  # its methods are not typed
            self._app,
            concurrency=at_once,
            fetch_job_polling_interval=self._pace.poll,
            abort_job_polling_interval=self._pace.poll,
            update_heartbeat_interval=self._pace.heartbeat,
            stalled_worker_timeout=self._pace.stalled,
            shutdown_graceful_timeout=self._pace.stop,
            listen_notify=await self._can_listen(),
            install_signal_handlers=False,
        )
        tasks = [asyncio.create_task(self._rescue()), asyncio.create_task(self._stop_worker(worker))]
        try:
            await worker.run()
        finally:
            for task in tasks:
                task.cancel()

    async def _stop_worker(self, worker: Any) -> None:
        """Stop a worker that runs once `stop` is called."""
        await self._stopping.wait()
        worker.stop()

    async def _can_listen(self) -> bool:
        """Return whether notifications arrive: not behind a pooler that lends connections for a transaction."""
        pooler = self._database.settings.pooler
        if pooler != "auto":
            return pooler == "none"
        async with self._database.catalog() as connection:
            return not await is_pooled(connection)

    async def _rescue(self) -> None:
        """Queue the jobs of dead workers again, once in each interval."""
        while True:
            await asyncio.sleep(self._pace.stalled)
            with suppress(MnemicError), _typed():
                await self._manager.requeue_lost(self._pace.stalled)


@asynccontextmanager
async def open_queue(database: Database, pace: Pace = PACE) -> AsyncIterator[JobQueue]:
    """Open the queue of a database, with at most two connections and one that listens.

    Raises:
        DatabaseUnavailableError: The database cannot be reached.
    """
    from procrastinate import App, PsycopgConnector

    from mnemic.storage.job_manager import TolerantJobManager

    settings = database.settings
    connector = PsycopgConnector(
        pool_factory=_make_pool,
        conninfo=database.running_dsn,
        kwargs=connection_options(database.dsn),
        min_size=0,
        max_size=2,
        timeout=settings.pool_timeout_seconds,
        reconnect_timeout=settings.pool_timeout_seconds,
        configure=partial(configure, settings.pooler),
        name="mnemic-jobs",
    )
    app = App(connector=connector)
    app.job_manager = manager = TolerantJobManager(connector)
    with _typed():
        await app.open_async()
    try:
        yield JobQueue(app, manager, database, pace)
    finally:
        await app.close_async()


def _make_pool(**options: Any) -> AsyncConnectionPool[Any]:
    """Make the library's pool without its query before each use: an idle worker would send twice as many."""
    return AsyncConnectionPool(**{**options, "check": _check})


async def _check(connection: AsyncConnection[Any]) -> None:
    if has_unread(connection):
        await AsyncConnectionPool.check_connection(connection)


def _as_task(run: Run, name: str) -> Callable[..., Awaitable[None]]:
    async def work(agent_id: str, scope_key: str) -> None:
        await run(name, Target(agent_id, scope_key))

    return work


def _queued(job: "Job") -> QueuedJob:
    assert job.id is not None
    return QueuedJob(
        id=job.id,
        job=job.task_name,
        agent_id=str(job.task_kwargs["agent_id"]),
        scope_key=str(job.task_kwargs["scope_key"]),
        status="running" if job.status == "doing" else "waiting",
        scheduled_at=job.scheduled_at,
    )


@contextmanager
def _typed() -> Iterator[None]:
    """Raise the library's and the driver's errors as the project's own."""
    from procrastinate.exceptions import ConnectorException

    try:
        yield
    except ConnectorException as error:
        cause = error.__cause__
        raise typed_error(cause) if isinstance(cause, Error) else DatabaseUnavailableError() from None
    except Error as error:
        raise typed_error(error) from None
