"""What agents and scope keys override, what was written for turns, and the tokens that agents used."""

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
    """The overrides of the visible scope keys that have any."""
    rows = await tx.rows(ScopeSettings, _SQL["settings"], {})
    return {row.scope_key: row for row in rows}


async def agent_settings(tx: ScopedTransaction) -> dict[str, Any]:
    """The agent's overrides; empty for an agent not seen yet."""
    return (await read_snapshot(tx))[0]


async def read_snapshot(tx: ScopedTransaction) -> tuple[dict[str, Any], int]:
    """The agent's overrides, and how far its history has come, for a run that is about to read."""
    ((settings, revision),) = await tx.tuples(_SQL["read_snapshot"], {})
    return settings, revision


async def ensure_agent(tx: ScopedTransaction) -> None:
    """An agent exists from its first use on."""
    await tx.execute(_SQL["ensure_agent"], {})


async def lock_agent(tx: ScopedTransaction) -> dict[str, Any]:
    """The agent's overrides, which nobody else changes until the transaction ends; the agent exists from now on."""
    ((settings,),) = await tx.tuples(_SQL["lock_agent"], {})
    return dict(settings)


async def configure_agent(tx: ScopedTransaction, overrides: Mapping[str, Any]) -> None:
    """Replaces the agent's overrides."""
    await tx.execute(_SQL["configure_agent"], {"settings": Jsonb(dict(overrides))})


async def assign_tenant(tx: ScopedTransaction, tenant_id: str) -> None:
    """Assign the agent to a tenant; the agent exists from now on."""
    await tx.execute(_SQL["assign_tenant"], {"tenant_id": tenant_id})


async def configure_scope(tx: ScopedTransaction, overrides: ScopeSettings) -> None:
    """Replaces what one scope key overrides."""
    await ensure_agent(tx)
    await tx.execute(_SQL["configure_scope"], asdict(overrides))


async def turn_writes_today(tx: ScopedTransaction, key: str) -> int:
    """Memories written for turns of the user with this scope key since midnight (UTC, the database's clock)."""
    row = await (await tx.execute(_SQL["turn_writes_today"], {"counted_key": key})).fetchone()
    return int(row[0]) if row else 0


async def count_turn_writes(tx: ScopedTransaction, key: str, written: int) -> int:
    """Adds to what was written for the user's turns today; the day's new total.

    Exact within an operation, which holds the agent's head.
    """
    ((total,),) = await tx.tuples(_SQL["count_turn_writes"], {"counted_key": key, "written": written})
    return int(total)


async def record_usage(tx: ScopedTransaction, usage: Usage) -> None:
    """Adds one step's tokens to today's."""
    await tx.execute(_SQL["record_usage"], asdict(usage))


async def daily_usage(tx: ScopedTransaction, since: date | None, before: date | None) -> list[DailyUsage]:
    """The agent's tokens by day, step and model, the last day first."""
    return await tx.rows(DailyUsage, _SQL["daily_usage"], {"since": since, "before": before})
