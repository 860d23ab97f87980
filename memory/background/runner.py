"""Runs one job on one target, and records how it ended."""

import logging
from functools import partial

from mnemic.memory.background.jobs import JOBS
from mnemic.memory.background.work import Work
from mnemic.memory.runtime.background import frames_of
from mnemic.memory.runtime.budget import require_tokens
from mnemic.state.background import Target
from mnemic.state.errors import (
    BudgetSpentError,
    ConcurrentChangeError,
    DatabaseUnavailableError,
    MnemicError,
    ModelError,
)
from mnemic.state.events import EventStatus
from mnemic.state.identity import Identity
from mnemic.storage import background

_LOG = logging.getLogger("mnemic")
#: Temporary errors: the work is tried until it succeeds, with growing pauses.
_TEMPORARY = (ModelError, DatabaseUnavailableError, ConcurrentChangeError)


async def run_job(work: Work, name: str, target: Target) -> None:
    """Run a job. A failure is recorded with its reason, logged, and tried again after a pause.

    A job that calls models waits until the next day if the tenant's daily token budget is used up.
    """
    with work.resources.events.timed(Identity(agent_id=target.agent_id), "worker", name) as outcome:
        outcome.status = await _run(work, name, target)
    work.resources.write_events()


async def _run(work: Work, name: str, target: Target) -> EventStatus:
    ids = {"job": name, **target._asdict()}
    job = JOBS[name]
    try:
        if job.calls_models:
            await require_tokens(work.resources, target.agent_id)
        is_postponed = await job.run(work, target)
    except BudgetSpentError as error:
        await _pause(work, name, target, error)
        return "skipped"
    except MnemicError as error:
        _LOG.warning("Job %s on %s of agent %s failed: %s", name, target.scope_key, target.agent_id, error, extra=ids)
        await _note(work, name, target, str(error), final=job.gives_up and not isinstance(error, _TEMPORARY))
        return "error"
    except Exception as error:  # noqa: BLE001 - a fault of one job must not end the worker; it is recorded and logged
        kind = type(error).__name__
        text = "Job %s on %s of agent %s ended with %s"
        _LOG.error(text, name, target.scope_key, target.agent_id, frames_of(error), extra=ids)
        await _note(work, name, target, f"unexpected {kind}; the log has its frames", final=True)
        return "error"
    if is_postponed:
        return "skipped"  # the record of an earlier failure stays
    async with work.resources.database.transaction(Identity(agent_id=target.agent_id)) as tx:
        await background.clear_failure(tx, name, target.scope_key)
    return "ok"


async def _pause(work: Work, name: str, target: Target, error: BudgetSpentError) -> None:
    record = partial(background.note_pause, job=name, key=target.scope_key, reason=str(error), until=error.available_at)
    try:
        await work.resources.database.write(Identity(agent_id=target.agent_id), record)
    except MnemicError as failure:
        _LOG.warning("Could not record the pause of job %s: %s", name, failure, extra={"job": name, **target._asdict()})


async def _note(work: Work, name: str, target: Target, reason: str, *, final: bool) -> None:
    settings, database = work.resources.settings, work.resources.database
    try:
        async with database.transaction(Identity(agent_id=target.agent_id)) as tx:
            await background.note_failure(tx, name, target.scope_key, reason, settings, final=final)
    except MnemicError as error:
        _LOG.warning("Could not record the failure of job %s: %s", name, error, extra={"job": name, **target._asdict()})
