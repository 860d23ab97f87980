"""Background work of a process: inside `Mnemic.open` and LangGraph Server, or as `mnemic worker`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from mnemic.memory.background.jobs import JOBS
from mnemic.memory.background.runner import run_job
from mnemic.memory.background.sweep import sweep
from mnemic.memory.background.work import JobGraphs, Work
from mnemic.memory.runtime.background import frames_of
from mnemic.memory.runtime.resources import Resources
from mnemic.storage.queue import PACE, Pace, open_queue

_LOG = logging.getLogger("mnemic")
#: Added to the wait for running jobs and for a connection, so that a process ends although its database is frozen.
_LEAVE_SECONDS = 5.0


@asynccontextmanager
async def background_work(resources: Resources, graphs: JobGraphs, pace: Pace = PACE) -> AsyncIterator[Work]:
    """Do background work until the block ends; then finish the running jobs, or release those that take too long.

    Raises:
        DatabaseUnavailableError: If the database cannot be reached.
    """
    settings = resources.settings
    async with open_queue(resources.database, pace) as queue:
        work = Work(resources, graphs, queue)
        run = partial(run_job, work)
        find = partial(sweep, work)
        task = asyncio.create_task(queue.work(JOBS, run, find, at_once=settings.jobs_at_once))
        task.add_done_callback(_log_end)
        try:
            yield work
        finally:
            queue.stop()
            await asyncio.wait([task], timeout=pace.stop + settings.pool_timeout_seconds + _LEAVE_SECONDS)
            task.cancel()  # no effect on a task that has ended


def _log_end(task: asyncio.Task[None]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:
        _LOG.error("Background work has ended with %s", frames_of(error))


async def finish_due_work(resources: Resources, graphs: JobGraphs) -> None:
    """Do all background work that is due now.

    Raises:
        DatabaseUnavailableError: If the database cannot be reached.
    """
    async with open_queue(resources.database) as queue:
        work = Work(resources, graphs, queue)
        await sweep(work, complete=True)
        await queue.drain(JOBS, partial(run_job, work), at_once=resources.settings.jobs_at_once)
