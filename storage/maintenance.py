"""An agent's maintenance: records of its runs, expired memories, and unused threads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from mnemic.state.graphs import StepUsage
from mnemic.state.kinds import RunUsage
from mnemic.state.maintenance import MaintenanceRun
from mnemic.storage.threads import ThreadOwner
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("maintenance")
#: Memories that one operation soft-deletes; it holds the agent's head for a fraction of a second.
BATCH = 250


class ExpiryRule(NamedTuple):
    """When a memory expires."""

    #: Days without use.
    days: int
    #: Importance from which a memory never expires by disuse.
    importance: int
    #: Categories that are always in context, which counts as use.
    always: Sequence[str]
    #: Days from the expiry to the purge. None: no purge.
    purge_after_days: int | None


class Expired(NamedTuple):
    """An expired memory."""

    id: UUID
    #: Whether its `valid_until` has passed; False if it was not used.
    is_past: bool


async def begin_run(tx: ScopedTransaction, run_id: UUID, *, is_dry_run: bool) -> None:
    """Record that a run begins."""
    values = {"run_id": run_id, "actor": tx.identity.actor, "is_dry_run": is_dry_run}
    await tx.execute(_SQL["begin_run"], values)


async def note_step(
    tx: ScopedTransaction, run_id: UUID, counts: Mapping[str, int], spent: Sequence[StepUsage], failed: Sequence[str]
) -> None:
    """Add the results of one step to the record of a run."""
    values = {"run_id": run_id, "counts": Jsonb(dict(counts)), "spent": Jsonb([*spent]), "failed": [*failed]}
    await tx.execute(_SQL["note_step"], values)


async def end_run(tx: ScopedTransaction, run_id: UUID) -> MaintenanceRun:
    """Record that a run has ended; return its record."""
    (run,) = await tx.rows(MaintenanceRun, _SQL["end_run"], {"run_id": run_id})
    return _with_usage(run)


async def list_runs(tx: ScopedTransaction, limit: int) -> list[MaintenanceRun]:
    """Return the runs of the agent's maintenance, the newest first."""
    return [_with_usage(run) for run in await tx.rows(MaintenanceRun, _SQL["list_runs"], {"most": limit})]


def _with_usage(run: MaintenanceRun) -> MaintenanceRun:
    rows: list[Any] = run.spent  # JSON, as the table has it
    return replace(run, spent=[RunUsage(**row) for row in rows])


async def find_expired(tx: ScopedTransaction, rule: ExpiryRule, limit: int) -> list[Expired]:
    """Return the expired memories of the whole agent."""
    return [Expired(*row) for row in await tx.call("expired_memories", _as_json(rule), limit)]


async def expire(tx: ScopedTransaction, rule: ExpiryRule, run_id: UUID) -> list[Expired]:
    """Soft-delete a batch of expired memories in an operation of the run; return them."""
    rows = await tx.call_with_head("expire_memories", _as_json(rule), run_id, uuid4(), tx.identity.actor, BATCH)
    return [Expired(*row) for row in rows]


def _as_json(rule: ExpiryRule) -> Any:
    return Jsonb({**rule._asdict(), "always": [*rule.always]})


async def stale_threads(
    tx: ScopedTransaction, days: int, after: tuple[str, str], limit: int
) -> list[tuple[ThreadOwner, str]]:
    """Return threads with several checkpoints and none of the last days, in the order of user and thread.

    Args:
        tx: of the agent.
        days: without a new checkpoint.
        after: user and thread of the last one that is known.
        limit: threads at most.
    """
    rows = await tx.call("stale_threads", days, *after, limit)
    return [(ThreadOwner(tx.identity.agent_id, user_id), thread_id) for user_id, thread_id in rows]
