"""The state of the background, and the command that retries a job."""

from mnemic.memory.background.jobs import JOBS
from mnemic.state.background import BackgroundStatus, Target
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity, split_scope_key
from mnemic.storage import background
from mnemic.storage.database import Database
from mnemic.storage.queue import JobQueue


async def read_status(queue: JobQueue, database: Database, *, limit: int) -> BackgroundStatus:
    """Return the jobs that run and wait, the work that failed, and the schedules, of all agents.

    Raises:
        DatabaseUnavailableError: if the database cannot be reached.
    """
    return BackgroundStatus(
        queued=(await queue.jobs())[:limit],
        failed=await background.list_failures(database, limit),
        schedules=await background.list_schedules(database, limit),
    )


async def retry_job(queue: JobQueue, database: Database, job: str, target: Target) -> None:
    """Queue a job for a target at once, also after failures.

    Raises:
        InvalidInputError: if there is no job of this name, or the agent has no such session; nothing was queued.
        DatabaseUnavailableError: if the database cannot be reached.
    """
    if job not in JOBS:
        raise InvalidInputError(f"job {job!r} is unknown; use one of {', '.join(JOBS)}")
    scope, owner = split_scope_key(target.scope_key)
    session_id = owner if scope == "session" else None
    async with database.transaction(Identity(agent_id=target.agent_id, session_id=session_id)) as tx:
        if session_id is not None and await background.read_session(tx, session_id, database.settings) is None:
            raise InvalidInputError(f"agent {target.agent_id} has no session {owner}")
        await background.clear_failure(tx, job, target.scope_key)
    await queue.wake(job, [target])
