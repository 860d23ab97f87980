"""The commands `worker`, `maintain` and `jobs`: background work, and its state."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
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
    """Do background work until SIGTERM or Ctrl-C; running jobs are finished first.

    Any number of workers on any number of machines may run. Set MNEMIC_BACKGROUND=false for the other processes.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with open_memory() as memory, background_work(memory.resources, memory.graphs):
        say(f"{memory.admin.describe()}; {memory.settings.jobs_at_once} jobs at once; Ctrl-C ends it")
        await stop.wait()
        say("finishing the running jobs")


async def maintain() -> None:
    """Do all due background work, then end; for the system's cron."""
    async with open_memory() as memory:
        await finish_due_work(memory.resources, memory.graphs)
    say("all due work is done")


async def jobs(context: typer.Context, limit: Limit = 100, as_json: AsJson = False) -> None:
    """List running, waiting and failed jobs, and schedules; retry or cancel a job."""
    if context.invoked_subcommand is not None:
        return
    async with _queue() as (memory, queue):
        status = await read_status(queue, memory.resources.database, limit=limit)
    report(status, _lines(status), as_json=as_json, nothing="no jobs")
    for failed in status.failed:
        if failed.retry_at is None and not as_json:
            again = command_line("jobs", "retry", failed.job, failed.scope_key, agent=failed.agent_id)
            say(f"to retry it: {again}")


async def retry(
    job: Annotated[str, typer.Argument(help="Name of the job, from `mnemic jobs`.")],
    scope_key: Annotated[str, typer.Argument(help="Session or scope key, such as user:ana.")],
    agent: Agent,
) -> None:
    """Queue a failed job now, without its pause."""
    async with _queue() as (memory, queue):
        await retry_job(queue, memory.resources.database, job, Target(agent, scope_key))
    say(f"{job} on {scope_key} of agent {agent} is queued")


async def cancel(job_id: Annotated[int, typer.Argument(metavar="ID", help="Id of a waiting or running job.")]) -> None:
    """Remove a job from the queue, or stop it; its work stays due."""
    async with _queue() as (_, queue):
        await queue.cancel(job_id)
    say(f"job {job_id} is cancelled")


@asynccontextmanager
async def _queue() -> AsyncIterator[tuple[Mnemic, JobQueue]]:
    async with open_memory() as memory, open_queue(memory.resources.database) as queue:
        yield memory, queue


def _lines(status: BackgroundStatus) -> Iterator[RenderableType]:
    queued: list[Sequence[object]] = []
    for job in status.queued:
        queued.append((job.id, job.status, job.job, job.agent_id, job.scope_key, _time(job.scheduled_at)))
    yield from table(queued, "id", "status", "job", "agent", "scope key", "not before")
    failures: list[Sequence[object]] = []
    for failed in status.failed:
        retry_at = _time(failed.retry_at) or "failed"
        failures.append((failed.job, failed.agent_id, failed.scope_key, failed.failures, retry_at, failed.reason))
    yield from table(failures, "failed job", "agent", "scope key", "failures", "retried at", "reason")
    schedules: list[Sequence[object]] = []
    for schedule in status.schedules:
        next_at = "" if schedule.cron == "off" else _time(schedule.next_at)
        schedules.append((schedule.job, schedule.agent_id, schedule.cron, _time(schedule.last_at) or "never", next_at))
    yield from table(schedules, "schedule", "agent", "cron", "last", "next")


def _time(time: datetime | None) -> str:
    if time is None:
        return ""
    return to_the_second(time)


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (worker, maintain)
