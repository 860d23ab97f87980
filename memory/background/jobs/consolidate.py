"""Consolidates scope keys with enough reflections, such as after a failed consolidation."""

import json
from datetime import datetime
from typing import get_args
from uuid import uuid4

from mnemic.memory.background.owners import owner_identity
from mnemic.memory.background.work import MAX_TARGETS, Job, Work
from mnemic.memory.runtime.graph import run_leased
from mnemic.state.background import Target
from mnemic.state.graphs import Lease
from mnemic.state.identity import Scope
from mnemic.storage import background


async def find_due(work: Work, now: datetime) -> list[Target]:
    """Return the scope keys with enough unabsorbed reflections."""
    resources = work.resources
    thresholds: dict[str, int] = {}
    for scope in get_args(Scope):
        thresholds[scope] = resources.settings.of_scope(scope, "threshold")
    return await background.due_targets(
        resources.database, "due_consolidations", MAX_TARGETS, now=now, thresholds=json.dumps(thresholds)
    )


async def run(work: Work, target: Target) -> None:
    """Rewrite the consolidation of the scope key, if that is due, and wake its propagation."""
    identity, lease = owner_identity(target), Lease("consolidation", target.scope_key, uuid4())
    request = {"scope_key": target.scope_key, "force": False}
    result = await run_leased(work.resources, work.graphs.consolidation, request, identity, lease)
    if result["outcome"] == "saved":
        await work.queue.wake("propagate", [target])


JOB = Job(name="consolidate", run=run, find_due=find_due, calls_models=True)
