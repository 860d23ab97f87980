"""Background work of a process: inside `Mnemic.open` and LangGraph Server, or as `mnemic worker`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from mnemic.memory.background.jobs import JOBS
from mnemic.memory.background.runner import run_job
from mnemic.memory.background.sweep import sweep
from mnemic.memory.background.work import JobGraphs, Work
from mnemic.operations.run.resources import Resources
from mnemic.storage.queue import open_queue


@asynccontextmanager
async def background_work(resources: Resources, graphs: JobGraphs) -> AsyncIterator[Work]:
    """Do background work until the block ends; then finish the jobs that run.

    Raises:
        DatabaseUnavailableError: The database cannot be reached.
    """
    async with open_queue(resources.database) as queue:
        work = Work(resources, graphs, queue)
        run, find = partial(run_job, work), partial(sweep, work)
        doing = asyncio.create_task(queue.work(JOBS, run, find, at_once=resources.settings.jobs_at_once))
        try:
            yield work
        finally:
            doing.cancel()
            with suppress(asyncio.CancelledError):
                await doing


async def finish_due_work(resources: Resources, graphs: JobGraphs) -> None:
    """Do all background work that is due now.

    Raises:
        DatabaseUnavailableError: The database cannot be reached.
    """
    async with open_queue(resources.database) as queue:
        work = Work(resources, graphs, queue)
        await sweep(work, complete=True)
        await queue.drain(JOBS, partial(run_job, work), at_once=resources.settings.jobs_at_once)
