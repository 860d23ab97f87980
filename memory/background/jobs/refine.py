"""Refines context memories: weekly those above their target, and at any time those above their budget."""

from datetime import datetime
from uuid import uuid4

from mnemic.memory.background.owners import owner_identity
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.memory.runtime.graph import run_leased
from mnemic.state.background import Target
from mnemic.state.errors import RefinementRunningError
from mnemic.state.graphs import Lease
from mnemic.storage import background


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the scope keys with context memories over their budget."""
    return await _above(work, work.resources.settings.refinement_budget_tokens, now, agent_id=None)


async def find_scheduled(work: Work, agent_id: str, now: datetime) -> list[Target]:
    """Return the agent's scope keys with context memories above their target."""
    return await _above(work, work.resources.settings.refinement_target, now, agent_id=agent_id)


async def _above(work: Work, tokens: int, now: datetime, *, agent_id: str | None) -> list[Target]:
    return await background.due_targets(
        work.resources.database, "due_refinements", MAX_TARGETS, now=now, agent=agent_id, tokens=tokens
    )


async def run(work: Work, target: Target) -> None:
    """Refine the scope key, or go on with a refinement that was broken off."""
    identity, lease = owner_identity(target), Lease("refinement", target.scope_key, uuid4())
    request = {"scope_key": target.scope_key, "force": True, "dry_run": False}
    try:
        await run_leased(work.resources, work.graphs.refinement, request, identity, lease)
    except RefinementRunningError:
        return  # another process refines the same scope key


JOB = Job(
    name="refine",
    run=run,
    find_due=find_due,
    interval_minutes=5,
    schedule="refinement_schedule",
    find_scheduled=find_scheduled,
    calls_models=True,
)
