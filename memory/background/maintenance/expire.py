"""Soft-deletes memories that were unused for long, and those of a day that has passed."""

from functools import partial
from typing import Final

from mnemic.memory.background.maintenance.step import Maintenance, StepOutcome
from mnemic.storage import maintenance
from mnemic.storage.maintenance import Expired, ExpiryRule

#: Maximum number of memories that a dry run counts.
_MAX_COUNTED: Final = 100_000


async def expire(run: Maintenance) -> StepOutcome:
    """Soft-delete expired memories that are neither pinned nor protected."""
    rule = ExpiryRule(
        days=run.settings.ttl_days,
        importance=run.settings.ttl_importance,
        always=run.resources.categories.always,
        purge_after_days=run.settings.retention_purge_after_days,
    )
    if run.is_dry_run:
        expired = await _find(run, rule)
    else:
        expired = await _expire(run, rule)
    past = sum(memory.is_past for memory in expired)
    return StepOutcome({"unused": len(expired) - past, "past": past})


async def _find(run: Maintenance, rule: ExpiryRule) -> list[Expired]:
    async with run.resources.database.transaction(run.identity) as tx:
        return await maintenance.find_expired(tx, rule, _MAX_COUNTED)


async def _expire(run: Maintenance, rule: ExpiryRule) -> list[Expired]:
    expired: list[Expired] = []
    expire_some = partial(maintenance.expire, rule=rule, run_id=run.run_id)
    while batch := await run.resources.database.write(run.identity, expire_some):
        expired += batch
    return expired
