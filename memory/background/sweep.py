"""The sweep: finds due work that no wake-up announced, and fires schedules. One process does it each minute."""

import logging
from datetime import UTC, datetime
from functools import partial
from typing import Final

from mnemic.memory.background.jobs import JOBS
from mnemic.memory.background.schedules import next_fire, stagger
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.storage import background
from mnemic.storage.background import DueSchedule

_LOG = logging.getLogger("mnemic")
#: Next time of a schedule that is off.
_NEVER: Final = datetime(9000, 1, 1, tzinfo=UTC)


async def sweep(work: Work, now: datetime | None = None, *, complete: bool = False) -> None:
    """Queue every job for the targets that are due. Without a database the next sweep tries again.

    Args:
        work: of this process.
        now: time at which work is due; None for the present.
        complete: whether to include jobs with an interval of more than a minute.
    """
    at = now or datetime.now(UTC)
    for job in JOBS.values():
        try:
            await _sweep_job(work, job, at, complete=complete)
        except MnemicError as error:
            _LOG.warning("Could not find the due work of job %s; the next sweep tries again: %s", job.name, error)
    try:
        await _wake_retries(work, at)
    except MnemicError as error:
        _LOG.warning("Could not find failed work; the next sweep tries again: %s", error)
    work.resources.write_events()


async def _sweep_job(work: Work, job: Job, now: datetime, *, complete: bool) -> None:
    if complete or now.minute % job.interval_minutes == 0:
        await work.queue.wake(job.name, await job.find_due(work, now))
    if job.schedule is not None:
        await _fire(work, job, job.schedule, now)


async def _wake_retries(work: Work, now: datetime) -> None:
    """Queue the failed work with a pause that is over."""
    for name, target in await background.due_retries(work.resources.database, now, MAX_TARGETS):
        if name in JOBS:
            await work.queue.wake(name, [target])


async def _fire(work: Work, job: Job, setting: str, now: datetime) -> None:
    default: str = getattr(work.resources.settings, setting)
    database = work.resources.database
    for due in await background.due_schedules(database, job.name, setting, default, now, MAX_TARGETS):
        # a schedule that is new, or has another line than before, fires at its next time
        fires = due.known == due.cron and due.next_at is not None and due.next_at <= now
        if fires:
            await work.queue.wake(job.name, await job.find_scheduled(work, due.agent_id, now))
        # recorded after the wake-up: a crash in between wakes the job twice, which does nothing the second time
        await _record(work, job, due, now, fired=fires)


async def _record(work: Work, job: Job, due: DueSchedule, now: datetime, *, fired: bool) -> None:
    delay = stagger(due.tenant_id, job.stagger_minutes)
    fire = next_fire(due.cron, now - delay)
    next_at = _NEVER
    if fire is not None:
        next_at = fire + delay
    last_at = now if fired else None
    note = partial(background.note_schedule, job=job.name, cron=due.cron, last_at=last_at, next_at=next_at)
    await work.resources.database.write(Identity(agent_id=due.agent_id), note)
