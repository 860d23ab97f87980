"""Background work: due work of all agents, failed work, and the schedules of each agent.

Reads across agents return ids, times and codes. Each write belongs to one agent and uses its transaction.
"""

from datetime import datetime
from typing import LiteralString, NamedTuple

from psycopg.sql import SQL, Identifier, Placeholder

from mnemic.state.background import JobFailure, Schedule, Target
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("background")


class DueSchedule(NamedTuple):
    """The schedule of one agent's job that fires, is new, or has another cron line than before."""

    agent_id: str
    tenant_id: str
    cron: str
    #: Cron line by which `next_at` was computed; None if there is no row.
    known: str | None
    last_at: datetime | None
    next_at: datetime | None


class DueRetry(NamedTuple):
    """Failed work with an elapsed pause."""

    job: str
    agent_id: str
    scope_key: str


class ObservedSession(NamedTuple):
    """A session as it was observed last."""

    identity: Identity
    last_activity_at: datetime
    is_cold: bool


async def due_targets(database: Database, function: str, limit: int, **values: object) -> list[Target]:
    """Return the targets with due work of all agents, from a function of the database.

    Args:
        database: of the service.
        function: name of the function. It has an argument `p_most`, and `p_NAME` for each value.
        limit: maximum number of targets.
        values: such as `now`, by the database's clock or a test's.
    """
    arguments = {"most": limit, **values}
    named = [SQL("{} => {}").format(Identifier(f"p_{name}"), Placeholder(name)) for name in arguments]
    statement = SQL("select * from {}({})").format(Identifier(function), SQL(", ").join(named))
    return await database.catalog_rows(Target, statement, arguments)


async def due_retries(database: Database, now: datetime, limit: int) -> list[tuple[str, Target]]:
    """Return failed jobs and targets with an elapsed pause, the longest waiting first."""
    statement: LiteralString = "select * from due_retries(%(now)s, %(most)s)"
    rows = await database.catalog_rows(DueRetry, statement, {"now": now, "most": limit})
    return [(row.job, Target(row.agent_id, row.scope_key)) for row in rows]


async def due_schedules(  # noqa: PLR0913 - the values of one statement
    database: Database, job: str, setting: str, default: str, now: datetime, limit: int
) -> list[DueSchedule]:
    """Return the schedules of a job that fire, are new, or have changed."""
    values = {"job": job, "setting": setting, "default": default, "now": now, "most": limit}
    statement: LiteralString = "select * from due_schedules(%(job)s, %(setting)s, %(default)s, %(now)s, %(most)s)"
    return await database.catalog_rows(DueSchedule, statement, values)


async def list_failures(database: Database, limit: int) -> list[JobFailure]:
    """Return the work that failed, of all agents, the newest first."""
    return await database.catalog_rows(JobFailure, "select * from failed_jobs(%(most)s)", {"most": limit})


async def list_schedules(database: Database, limit: int) -> list[Schedule]:
    """Return the schedules of all agents, the next to fire first."""
    return await database.catalog_rows(Schedule, "select * from all_schedules(%(most)s)", {"most": limit})


async def note_failure(  # noqa: PLR0913 - the values of one statement
    tx: ScopedTransaction, job: str, key: str, reason: str, settings: Settings, *, final: bool
) -> None:
    """Record that a job failed on a scope key, and when it is tried again.

    Args:
        tx: of the agent.
        job: its name.
        key: the scope key.
        reason: message of a typed error, without contents.
        settings: pauses and number of tries.
        final: the same work fails again as it is: after the last try it is not tried again without a command.
    """
    values = {
        "job": job,
        "scope_key": key,
        "reason": reason,
        "final": final,
        "max_attempts": settings.max_attempts,
        "first_wait": settings.retry_seconds,
        "longest_wait": settings.max_retry_seconds,
    }
    await tx.execute(_SQL["note_failure"], values)


async def note_pause(tx: ScopedTransaction, job: str, key: str, reason: str, until: datetime) -> None:
    """Record that a job on a scope key waits until a moment; its number of failures stays."""
    await tx.execute(_SQL["note_pause"], {"job": job, "scope_key": key, "reason": reason, "until": until})


async def clear_failure(tx: ScopedTransaction, job: str, key: str) -> bool:
    """Delete the record of a failure; return whether there was one."""
    return bool(await tx.tuples(_SQL["clear_failure"], {"job": job, "scope_key": key}))


async def note_schedule(
    tx: ScopedTransaction, job: str, cron: str, last_at: datetime | None, next_at: datetime
) -> None:
    """Record when a schedule fired last and fires next."""
    await tx.execute(_SQL["note_schedule"], {"job": job, "cron": cron, "last_at": last_at, "next_at": next_at})


async def read_session(tx: ScopedTransaction, session_id: str, settings: Settings) -> ObservedSession | None:
    """Return a session as it was observed last; None if there is no such session."""
    values = {"session_id": session_id, "cold": settings.session_cold_minutes}
    rows = await tx.tuples(_SQL["read_session"], values)
    if not rows:
        return None
    fields, last_activity_at, is_cold = rows[0]
    identity = Identity(**fields, agent_id=tx.identity.agent_id, session_id=session_id)
    return ObservedSession(identity, last_activity_at, is_cold)


async def rest_session(tx: ScopedTransaction, session_id: str, last_activity_at: datetime) -> None:
    """Remove the session from the sweep, unless it has newer messages than when it was read."""
    await tx.execute(_SQL["rest_session"], {"session_id": session_id, "last_activity_at": last_activity_at})
