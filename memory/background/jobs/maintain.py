"""Maintains each agent daily."""

from typing import Final

from mnemic.memory.background.maintenance.run import maintain
from mnemic.memory.background.owners import owner_identity
from mnemic.memory.background.work import Job, Work
from mnemic.state.background import Target
from mnemic.state.errors import MaintenanceRunningError

#: Minutes over which the runs of different tenants are spread.
_STAGGER_MINUTES: Final = 120


async def run(work: Work, target: Target) -> None:
    """Run the due maintenance of the whole agent."""
    try:
        await maintain(work.resources, owner_identity(target))
    except MaintenanceRunningError:
        return  # another process maintains the same agent


JOB = Job(name="maintain", run=run, schedule="maintenance_schedule", stagger_minutes=_STAGGER_MINUTES)
