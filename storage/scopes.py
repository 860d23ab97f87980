"""Overrides of agents and scope keys, the daily writes for turns, and the tokens that agents used."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Any

from psycopg.types.json import Jsonb

from mnemic.state.kinds import DailyUsage, Usage
from mnemic.state.records import ScopeSettings
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("scopes")


async def scope_settings(tx: ScopedTransaction) -> dict[str, ScopeSettings]:
    """Return the overrides of the visible scope keys that have any."""
    rows = await tx.rows(ScopeSettings, _SQL["settings"], {})
    return {row.scope_key: row for row in rows}


async def agent_settings(tx: ScopedTransaction) -> dict[str, Any]:
    """Return the agent's overrides; none for an unknown agent."""
    settings, _ = await read_snapshot(tx)
    return settings


async def read_snapshot(tx: ScopedTransaction) -> tuple[dict[str, Any], int]:
    """Return the agent's overrides and the revision of its history, before a run reads memories."""
    ((settings, revision),) = await tx.tuples(_SQL["read_snapshot"], {})
    return settings, revision


async def ensure_agent(tx: ScopedTransaction) -> None:
    """Store the agent at its first use."""
    await tx.execute(_SQL["ensure_agent"], {})


async def lock_agent(tx: ScopedTransaction) -> dict[str, Any]:
    """Return the agent's overrides and lock them until the transaction ends; store the agent at its first use."""
    ((settings,),) = await tx.tuples(_SQL["lock_agent"], {})
    return dict(settings)


async def configure_agent(tx: ScopedTransaction, overrides: Mapping[str, Any]) -> None:
    """Replace the agent's overrides."""
    await tx.execute(_SQL["configure_agent"], {"settings": Jsonb(dict(overrides))})


async def assign_tenant(tx: ScopedTransaction, tenant_id: str) -> None:
    """Assign the agent to a tenant; store the agent at its first use."""
    await tx.execute(_SQL["assign_tenant"], {"tenant_id": tenant_id})


async def configure_scope(tx: ScopedTransaction, overrides: ScopeSettings) -> None:
    """Replace the overrides of one scope key."""
    await ensure_agent(tx)
    await tx.execute(_SQL["configure_scope"], asdict(overrides))


async def turn_writes_today(tx: ScopedTransaction, key: str) -> int:
    """Return the number of memories written for turns of a user since midnight (UTC, the database's clock)."""
    rows = await tx.tuples(_SQL["turn_writes_today"], {"counted_key": key})
    return int(rows[0][0]) if rows else 0


async def count_turn_writes(tx: ScopedTransaction, key: str, written: int) -> int:
    """Add memories to those written for turns of a user today; return the total of the day.

    The total is exact within an operation, which locks the agent's head.
    """
    ((total,),) = await tx.tuples(_SQL["count_turn_writes"], {"counted_key": key, "written": written})
    return int(total)


async def record_usage(tx: ScopedTransaction, usage: Usage) -> None:
    """Add the tokens of one step to those of today; store the agent at its first use."""
    await tx.execute(_SQL["record_usage"], asdict(usage))


async def daily_usage(tx: ScopedTransaction, since: date | None, before: date | None) -> list[DailyUsage]:
    """Return the agent's tokens by day, step and model, the last day first."""
    return await tx.rows(DailyUsage, _SQL["daily_usage"], {"since": since, "before": before})
