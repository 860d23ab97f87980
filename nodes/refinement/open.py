"""Refinement: a session begins, or one that was broken off goes on; or tells what there is to do."""

from typing import Any, cast

from langgraph.runtime import Runtime

from mnemic.operations.refinement.open import CoreMemory, first_batches, open_session, plan
from mnemic.operations.run.graph import RefinementNode, holder_of, release_lease_on_error
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider
from mnemic.state.checking import validate
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity, scope_key
from mnemic.state.refinement import Handles, RefinementInput, RefinementResult, RefinementState


def open_refinement(provide: Provider) -> RefinementNode:
    """Begins or resumes the scope key's session where that is due; a dry run only tells what there is to do."""

    async def open_refinement(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        resources, identity = await provide(), identity_of(runtime)
        request = validate(RefinementInput, state)
        key = request.get("scope_key") or scope_key("agent", identity.agent_id)
        forced = request.get("force", False)
        if request.get("dry_run"):
            return {**_no_session(state), **await plan(resources, identity, key, forced=forced)}
        lease = Lease(work="refinement", scope_key=key, holder=holder_of(runtime))
        async with release_lease_on_error(resources, identity, lease):
            opened = await open_session(resources, identity, lease, forced=forced)
            if isinstance(opened, CoreMemory):
                return {**_no_session(state), **opened.as_result(key), "outcome": "not_due", "refinement_id": None}
            batches = await first_batches(opened.session)
        return {
            "scope_key": key,
            "refinement_id": str(opened.session.claim.id),
            "resumed": opened.is_resumed,
            "lease": lease,
            "overrides": opened.core.overrides,
            "handles": Handles(),  # a memory has its number once it is shown
            "batches": batches,
            "batch": 1,
            "turns": [],
            "ending": None if batches else "finished",  # all that there was may be gone when a session is resumed
        }

    return open_refinement


def _no_session(state: RefinementState) -> RefinementState:
    """What the channels hold where none begins: nothing of an earlier run on the same thread."""
    stale: dict[str, Any] = dict.fromkeys(RefinementResult.__annotations__.keys() & state.keys())
    return cast(RefinementState, {**stale, "ending": None, "batches": []})
