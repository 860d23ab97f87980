"""Events of the service, and counts of its activity: by agent, by tenant, and of the whole database."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import LiteralString

from psycopg.types.json import Jsonb

from mnemic.state.events import ContextSize, Count, Event, Figure, TenantTokens
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("events")
_COUNTS: LiteralString = "select * from count_activity(%(tenant_id)s, %(since)s, %(before)s)"
_CONTEXT: LiteralString = "select * from context_sizes(%(tenant_id)s, %(budget)s)"
_TOKENS: LiteralString = "select * from tenant_tokens(%(tenant_id)s, %(agent_id)s)"


async def record_events(tx: ScopedTransaction, events: Sequence[Event]) -> None:
    """Store a batch of events of the transaction's agent."""
    rows = [{**vars(event), "ts": event.ts.isoformat(), "memory_id": _text(event.memory_id)} for event in events]
    await tx.execute(_SQL["record"], {"events": Jsonb(rows)})


def _text(value: object) -> str | None:
    return None if value is None else str(value)


async def prune_events(tx: ScopedTransaction, before: datetime, limit: int) -> int:
    """Delete the agent's events from before a moment, at most so many; return how many were deleted."""
    return len(await tx.tuples(_SQL["prune"], {"before": before, "most": limit}))


async def agent_activity(
    tx: ScopedTransaction, since: date | None, before: date | None, budget: int
) -> tuple[list[Count], list[ContextSize]]:
    """Return the counts of the transaction's agent, and the sizes of its context memories.

    Args:
        tx: of the agent.
        since: from this day on, in UTC.
        before: up to the day before this one.
        budget: tokens of one scope key's context memories, for agents that override none.
    """
    days = {"tenant_id": None, "since": since, "before": before}
    counts = await tx.rows(Count, _COUNTS, days)
    return counts, await tx.rows(ContextSize, _CONTEXT, {"tenant_id": None, "budget": budget})


async def tenant_activity(
    database: Database, tenant_id: str, since: date | None, before: date | None, budget: int
) -> tuple[list[Count], list[ContextSize]]:
    """Return the counts of all agents of a tenant, as `agent_activity`."""
    counts = await database.catalog_rows(Count, _COUNTS, {"tenant_id": tenant_id, "since": since, "before": before})
    return counts, await database.catalog_rows(ContextSize, _CONTEXT, {"tenant_id": tenant_id, "budget": budget})


async def tenant_tokens(
    database: Database, *, tenant_id: str | None = None, agent_id: str | None = None
) -> TenantTokens:
    """Return the tokens that a tenant has used today; without one, the tenant of the agent."""
    (tokens,) = await database.catalog_rows(TenantTokens, _TOKENS, {"tenant_id": tenant_id, "agent_id": agent_id})
    return tokens


async def service_figures(database: Database) -> list[Figure]:
    """Return figures of the whole database: jobs, failed work, calls and tokens of models by step."""
    return await database.catalog_rows(Figure, _SQL["figures"], {})
