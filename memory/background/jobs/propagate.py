"""Raises memories to groups and to all users, after a consolidation of the scope key that has them."""

from datetime import datetime

from mnemic.memory.background.propagation import propagate
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.state.background import Target
from mnemic.state.identity import split_scope_key
from mnemic.storage import background


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the scope keys that were consolidated, or had new memories a day ago, since the last run."""
    return await background.due_targets(work.resources.database, "due_propagations", MAX_TARGETS, now=now)


async def run(work: Work, target: Target) -> None:
    """Raise new memories of the scope key. A memory that was raised to a group makes the group due."""
    if split_scope_key(target.scope_key)[0] in ("user", "group"):
        await propagate(work.resources, target)


#: `find_due` reads all scope keys with memories. The job `consolidate` wakes this one, too.
JOB = Job(name="propagate", run=run, find_due=find_due, interval_minutes=15, calls_models=True)
