"""The queue of background jobs: procrastinate on tables of its own in the same database, through a small pool.

A job in the queue is a wake-up: which job, which agent, which scope key. What there is to do is read when it runs, so
that a lost wake-up costs a minute and a doubled one nothing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from psycopg import Error

from mnemic.state.background import QueuedJob, Target
from mnemic.state.errors import DatabaseUnavailableError, InvalidInputError, MnemicError
from mnemic.storage.connection import configure, connection_options
from mnemic.storage.database import Database
from mnemic.storage.failures import typed_error

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.jobs import Job

_LOG = logging.getLogger("mnemic")
_SWEEP: Final = "sweep"
#: Seconds between two looks for jobs that a notification did not announce.
POLL_SECONDS: Final = 15.0
HEARTBEAT_SECONDS: Final = 15.0
#: Seconds without a heartbeat after which the jobs of a worker are given to others.
STALLED_SECONDS: Final = 45.0
#: Seconds before a worker that lost the database connects again.
RECONNECT_SECONDS: Final = 2.0

#: Does one job on one target.
Run = Callable[[str, Target], Awaitable[None]]


class JobQueue:
    """The queue of one database, open between `open_queue` and its end."""

    def __init__(self, app: "App", *, listens: bool) -> None:
        self._app = app
        self._listens = listens

    async def wake(self, job: str, targets: Iterable[Target]) -> int:
        """Queue a job for each target that has none waiting; return how many were queued.

        Raises:
            DatabaseUnavailableError: The database cannot be reached.
        """
        from procrastinate.exceptions import AlreadyEnqueued

        queued = 0
        for target in targets:
            key = f"{target.agent_id} {target.scope_key}"
            configured = self._app.configure_task(
                job, lock=key, queueing_lock=f"{job} {key}", task_kwargs=target._asdict(), allow_unknown=True
            )
            with suppress(AlreadyEnqueued), _typed():
                await configured.defer_async()
                queued += 1
        return queued

    async def jobs(self) -> list[QueuedJob]:
        """Return the jobs that run, then those that wait, in the order in which they are taken.

        Raises:
            DatabaseUnavailableError: The database cannot be reached.
        """
        found: list[QueuedJob] = []
        with _typed():
            for status in ("doing", "todo"):
                listed = await self._app.job_manager.list_jobs_async(status=status)
                found += [_queued(job) for job in listed if job.task_name != _SWEEP]
        return found

    async def cancel(self, job_id: int) -> None:
        """Take a waiting job out of the queue, or stop one that runs; its work is given back.

        Raises:
            InvalidInputError: No such job waits or runs.
            DatabaseUnavailableError: The database cannot be reached.
        """
        with _typed():
            found = await self._app.job_manager.cancel_job_by_id_async(job_id, abort=True, delete_job=True)
        if not found:
            raise InvalidInputError(f"no job {job_id} waits or runs: `mnemic jobs` lists them")

    async def work(self, jobs: Iterable[str], run: Run, sweep: Callable[[], Awaitable[None]], *, at_once: int) -> None:
        """Do jobs until the task is cancelled; then finish those that run.

        Args:
            jobs: names of all jobs.
            run: does one of them.
            sweep: looks for due work, once a minute in one of all processes.
            at_once: jobs side by side.
        """
        self._register(jobs, run, sweep)
        while True:
            with suppress(MnemicError), _typed():
                await self._give_back_stalled()
                await self._work_until_lost(at_once)
            # the worker ends by itself if it loses the database
            await asyncio.sleep(RECONNECT_SECONDS)

    async def drain(self, jobs: Iterable[str], run: Run, *, at_once: int) -> None:
        """Do the jobs that wait, and those that they queue, until none is left."""
        self._register(jobs, run, None)
        with _typed():
            await self._app.run_worker_async(
                wait=False,
                concurrency=at_once,
                delete_jobs="always",
                listen_notify=False,
                install_signal_handlers=False,
            )

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
        rescue = asyncio.create_task(self._rescue())
        try:
            await self._app.run_worker_async(
                concurrency=at_once,
                delete_jobs="always",
                fetch_job_polling_interval=POLL_SECONDS,
                abort_job_polling_interval=POLL_SECONDS,
                update_heartbeat_interval=HEARTBEAT_SECONDS,
                stalled_worker_timeout=STALLED_SECONDS,
                listen_notify=self._listens,
                install_signal_handlers=False,
            )
        finally:
            rescue.cancel()

    async def _rescue(self) -> None:
        """Give the jobs of dead workers to others, again and again."""
        while True:
            await asyncio.sleep(STALLED_SECONDS)
            with suppress(MnemicError), _typed():
                await self._give_back_stalled()

    async def _give_back_stalled(self) -> None:
        manager = self._app.job_manager
        await manager.prune_stalled_workers(STALLED_SECONDS)
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_SECONDS):
            await manager.retry_job(job)


@asynccontextmanager
async def open_queue(database: Database) -> AsyncIterator[JobQueue]:
    """Open the queue of a database, with two connections at most beside one that listens.

    Raises:
        DatabaseUnavailableError: The database cannot be reached.
    """
    from procrastinate import App, PsycopgConnector

    settings = database.settings
    connector = PsycopgConnector(
        conninfo=database.conninfo,
        kwargs=connection_options(database.dsn),
        min_size=0,
        max_size=2,
        timeout=settings.pool_timeout_seconds,
        configure=partial(configure, settings.pooler),
        name="mnemic-jobs",
    )
    app = App(connector=connector)
    with _typed():
        await app.open_async()
    try:
        # behind a pooler that lends connections for a transaction no notification arrives
        yield JobQueue(app, listens=settings.pooler != "transaction")
    finally:
        await app.close_async()


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
