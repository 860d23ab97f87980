"""Counts over time of what the service did, for operators: no contents and no ids of users."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from mnemic.memory.runtime.resources import Resources
from mnemic.state.events import ALL_STATS_KEYS, ContextSize, Count, Stats, StatsKey
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage import events, scopes


async def agent_stats(
    resources: Resources, identity: Identity, since: date | None, before: date | None, by: Collection[StatsKey]
) -> Stats:
    """Return the counts of the identity's agent."""
    await resources.events.write(resources.database)
    async with resources.database.transaction(identity) as tx:
        settings = resources.settings.overridden_for_recall(await scopes.agent_settings(tx))
        counts, context = await events.agent_activity(tx, since, before, settings.refinement_budget_tokens)
    used = await events.tenant_tokens(resources.database, agent_id=identity.agent_id)
    return _stats(settings, group_counts(counts, by), context, used.tokens)


async def tenant_stats(
    resources: Resources, tenant_id: str, since: date | None, before: date | None, by: Collection[StatsKey]
) -> Stats:
    """Return the counts of all agents of a tenant."""
    await resources.events.write(resources.database)
    settings, database = resources.settings, resources.database
    budget = settings.refinement_budget_tokens
    counts, context = await events.tenant_activity(database, tenant_id, since, before, budget)
    used = await events.tenant_tokens(database, tenant_id=tenant_id)
    return _stats(settings, group_counts(counts, by), context, used.tokens)


def _stats(settings: Settings, counts: list[Count], context: list[ContextSize], tokens_today: int) -> Stats:
    return Stats(
        counts=counts,
        context=context,
        context_budget_tokens=settings.refinement_budget_tokens,
        tokens_today=tokens_today,
        tenant_daily_tokens=settings.tenant_daily_tokens,
    )


def group_counts(counts: Iterable[Count], by: Collection[StatsKey]) -> list[Count]:
    """Add counts up by their measure and these columns, in the order of measures, days and names."""
    dropped: Mapping[str, Any] = {key: None for key in ALL_STATS_KEYS if key not in by}
    sums: dict[tuple[Any, ...], Count] = {}
    for count in counts:
        kept = replace(count, **dropped)
        key = (kept.measure, kept.day, kept.name, kept.op, kept.status)
        if earlier := sums.get(key):
            duration = (earlier.duration_ms or 0.0) + (kept.duration_ms or 0.0)
            kept = replace(kept, amount=earlier.amount + kept.amount, duration_ms=duration or None)
        sums[key] = kept
    return sorted(sums.values(), key=_order)


def _order(count: Count) -> tuple[str, ...]:
    return (count.measure, str(count.day), count.name or "", count.op or "", count.status or "")
