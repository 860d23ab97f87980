"""Erases words of formed messages by their age, and memories that expired long ago, if that is set."""

from datetime import timedelta

from mnemic.memory.background.maintenance.step import Maintenance, StepOutcome
from mnemic.memory.governance.retention import forget_messages
from mnemic.memory.runtime.principal import Principal
from mnemic.storage import erasure


async def purge(run: Maintenance) -> StepOutcome:
    """Erase words of messages after their days, and expired memories after `retention_purge_after_days`."""
    database, days = run.resources.database, run.settings.retention_purge_after_days
    after = None
    if days is not None:
        after = timedelta(days=days)
    if run.is_dry_run:
        async with database.transaction(run.identity) as tx:
            due = await erasure.due_purges(tx, after)
        return StepOutcome({"messages": due.messages, "purged": due.memories})
    messages = await forget_messages(Principal(database, run.identity, run.identity.scope_keys))
    if after is None:
        return StepOutcome({"messages": messages, "purged": 0})
    purged = await erasure.purge_expired(database, run.identity, after, run_id=run.run_id)
    return StepOutcome({"messages": messages, "purged": len(purged)})
