"""Erases what is due by its age: words of formed messages, and memories that expired long ago, if that is set."""

from datetime import timedelta

from mnemic.memory.background.maintenance.step import Maintenance, StepOutcome
from mnemic.memory.governance.retention import forget_messages
from mnemic.memory.runtime.principal import Principal
from mnemic.storage import erasure


async def purge(run: Maintenance) -> StepOutcome:
    """Erase words of messages whose days are over, and expired memories after `retention_purge_after_days`."""
    database, days = run.resources.database, run.settings.retention_purge_after_days
    after = None if days is None else timedelta(days=days)
    if run.is_dry_run:
        async with database.transaction(run.identity) as tx:
            due = await erasure.due_purges(tx, after)
        return StepOutcome({"messages": due.messages, "purged": due.memories})
    messages = await forget_messages(Principal(database, run.identity, run.identity.scope_keys))
    purged = [] if after is None else await erasure.purge_expired(database, run.identity, after, run_id=run.run_id)
    return StepOutcome({"messages": messages, "purged": len(purged)})
