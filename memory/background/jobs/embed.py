"""Fills the vectors of entries that were stored without one."""

from datetime import datetime

from mnemic.memory.background.owners import owner_identity
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.memory.runtime.embedding import embed_pending
from mnemic.state.background import Target
from mnemic.storage import background


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the scope keys with entries that lack a due vector."""
    return await background.due_targets(work.resources.database, "due_embeddings", MAX_TARGETS, now=now)


async def run(work: Work, target: Target) -> None:
    """Fill the vectors that are due in the scope key."""
    await embed_pending(work.resources, owner_identity(target))


JOB = Job(name="embed", run=run, find_due=find_due)
