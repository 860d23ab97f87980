"""Takes raised memories back if their source was undone, forgotten, corrected, erased or made private."""

from datetime import datetime

from mnemic.memory.background.propagation import withdraw
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.state.background import Target
from mnemic.storage import propagation


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the scope keys with copies that lack a valid source."""
    return await propagation.due_withdrawals(work.resources.database, now, MAX_TARGETS)


async def run(work: Work, target: Target) -> None:
    """Withdraw those copies."""
    await withdraw(work.resources, target)


JOB = Job(name="withdraw", run=run, find_due=find_due)
