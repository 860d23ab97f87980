"""Judges near duplicates among an agent's facts, once a day."""

from uuid import uuid4

from mnemic.memory.background.maintenance.pairs import merge_pairs
from mnemic.memory.background.work import Job, Work
from mnemic.state.background import Target


async def run(work: Work, target: Target) -> None:
    """Judge the pairs of similar facts that were not judged lately."""
    await merge_pairs(work, target.agent_id, str(uuid4()), dry_run=False)


JOB = Job(name="pairs", run=run, schedule="maintenance_schedule", stagger_minutes=120)
