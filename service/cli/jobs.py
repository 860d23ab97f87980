"""`mnemic worker` and `mnemic jobs`: background work by a process of its own, and a look at all of it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated

import typer
from rich.console import RenderableType

from mnemic.memory.background.status import read_status, retry_job
from mnemic.service.cli.options import Agent, AsJson, Limit, open_memory
from mnemic.service.cli.terminal import command_line, report, say, table, to_the_second
from mnemic.service.memory import Mnemic
from mnemic.service.worker import background_work, finish_due_work
from mnemic.state.background import BackgroundStatus, Target
from mnemic.storage.queue import JobQueue, open_queue


async def worker() -> None:
    """Do background work until SIGTERM or Ctrl-C; jobs that run are finished first.

    Start as many as you like, on any number of machines. Set MNEMIC_BACKGROUND=false for the processes that answer.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with open_memory() as memory, background_work(memory.resources, memory.graphs):
        say(f"{memory.admin.describe()}; {memory.settings.jobs_at_once} jobs at once; Ctrl-C ends it")
        await stop.wait()
        say("finishing the jobs that run")


async def maintain() -> None:
    """Do all background work that is due now, and end: for the system's cron."""
    async with open_memory() as memory:
        await finish_due_work(memory.resources, memory.graphs)
    say("all due work is done")


async def jobs(context: typer.Context, limit: Limit = 100, as_json: AsJson = False) -> None:
    """List the jobs that run, wait and failed, and when each schedule fires; retry and cancel them."""
    if context.invoked_subcommand is not None:
        return
    async with _queue() as (memory, queue):
        status = await read_status(queue, memory.resources.database, limit=limit)
    report(status, _lines(status), as_json=as_json, nothing="no jobs")
    for failed in status.failed:
        if failed.retry_at is None and not as_json:
            again = command_line("jobs", "retry", failed.job, failed.scope_key, agent=failed.agent_id)
            say(f"to try it again: {again}")


async def retry(
    job: Annotated[str, typer.Argument(help="Name of the job, as `mnemic jobs` prints it.")],
    scope_key: Annotated[str, typer.Argument(help="Session or scope key, such as user:ana.")],
    agent: Agent,
) -> None:
    """Queue a job at once, whatever its earlier failures say."""
    async with _queue() as (memory, queue):
        await retry_job(queue, memory.resources.database, job, Target(agent, scope_key))
    say(f"{job} on {scope_key} of agent {agent} is queued; a worker takes it")


async def cancel(job_id: Annotated[int, typer.Argument(metavar="ID", help="Of a job that waits or runs.")]) -> None:
    """Take a job out of the queue, or stop one that runs; its work stays due."""
    async with _queue() as (_, queue):
        await queue.cancel(job_id)
    say(f"job {job_id} is cancelled")


@asynccontextmanager
async def _queue() -> AsyncIterator[tuple[Mnemic, JobQueue]]:
    async with open_memory() as memory, open_queue(memory.resources.database) as queue:
        yield memory, queue


def _lines(status: BackgroundStatus) -> Iterator[RenderableType]:
    rows = [
        (job.id, job.status, job.job, job.agent_id, job.scope_key, _moment(job.scheduled_at)) for job in status.queued
    ]
    yield from table(rows, "id", "status", "job", "agent", "scope key", "not before")
    failures = [
        (
            failed.job,
            failed.agent_id,
            failed.scope_key,
            failed.failures,
            _moment(failed.retry_at) or "failed",
            failed.reason,
        )
        for failed in status.failed
    ]
    yield from table(failures, "failed job", "agent", "scope key", "times", "tried again", "reason")
    schedules = [
        (
            schedule.job,
            schedule.agent_id,
            schedule.cron,
            _moment(schedule.last_at) or "never",
            _moment(None if schedule.cron == "off" else schedule.next_at),
        )
        for schedule in status.schedules
    ]
    yield from table(schedules, "schedule", "agent", "cron", "last", "next")


def _moment(moment: datetime | None) -> str:
    return to_the_second(moment) if moment else ""
