"""Raises memories to groups and to all users, after a consolidation of the scope key that has them."""

from datetime import datetime

from mnemic.memory.background.propagation import propagate
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.state.background import Target
from mnemic.state.identity import split_scope_key
from mnemic.storage import propagation


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the scope keys that were consolidated, or had new memories a day ago, since they were looked at."""
    return await propagation.due_propagations(work.resources.database, now, MAX_TARGETS)


async def run(work: Work, target: Target) -> None:
    """Raise what is new in the scope key; what was raised makes a group due in its turn."""
    if split_scope_key(target.scope_key)[0] in ("user", "group"):
        await propagate(work.resources, target)


#: Each look reads all scope keys with memories. A consolidation by a job wakes the job by itself.
JOB = Job(name="propagate", run=run, find_due=find_due, interval_minutes=15, asks_models=True)
