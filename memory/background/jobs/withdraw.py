"""Takes raised memories back if their source was undone, forgotten, corrected, erased or made private."""

from datetime import datetime

from mnemic.memory.background.propagation import withdraw
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.state.background import Target
from mnemic.storage import background


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the scope keys with copies that lack a valid source."""
    return await background.due_targets(work.resources.database, "due_withdrawals", MAX_TARGETS, now=now)


async def run(work: Work, target: Target) -> None:
    """Withdraw those copies."""
    await withdraw(work.resources, target)


JOB = Job(name="withdraw", run=run, find_due=find_due)
