"""Refinement: the session's end, where its agent has not ended it, and what came of it."""

from langgraph.runtime import Runtime

from mnemic.operations.refinement.close import finish
from mnemic.operations.refinement.session import refining_of
from mnemic.operations.run.node_types import RefinementNode
from mnemic.operations.run.resources import Provider
from mnemic.state.graphs import RefinementState
from mnemic.state.identity import Identity
from mnemic.state.refinement import Refinement
from mnemic.storage import refinements


def close_refinement(provide: Provider) -> RefinementNode:
    """Ends what ran into a limit or out of calls; the figures are those of the session's row."""

    async def close_refinement(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        refining = await refining_of(provide, state, runtime)
        ending = state["ending"]
        if ending is not None and ending != "completed":
            await finish(refining, ending)
        row = await refining.read(lambda scoped: refinements.one(scoped, refining.claim.id))
        return {**as_result(row), "resumed": state["resumed"]}

    return close_refinement


def as_result(row: Refinement) -> RefinementState:
    """An ended session as what a refinement answers."""
    return {
        "scope_key": row.scope_key,
        "outcome": "ended",
        "refinement_id": str(row.id),
        "ended": row.ended,
        "tokens_before": row.tokens_before,
        "tokens_after": row.tokens_after or 0,
        "target_tokens": row.target_tokens,
        "memories_before": row.memories_before,
        "memories_after": row.memories_after or 0,
        "duplicates": row.duplicates,
        "merged": row.merged,
        "updated": row.updated,
        "deleted": row.deleted,
        "protected": row.protected,
        "steps": row.steps,
        "journal_id": str(row.journal_id) if row.journal_id else None,
    }
