"""Refinement: the session's end, where its agent has not ended it, and what came of it."""

from langgraph.runtime import Runtime

from mnemic.operations.refinement.close import finish
from mnemic.operations.refinement.session import refinement_session
from mnemic.operations.run.graph import RefinementNode
from mnemic.operations.run.resources import Provider
from mnemic.state.identity import Identity
from mnemic.state.refinement import RefinementState
from mnemic.storage import refinements


def close_refinement(provide: Provider) -> RefinementNode:
    """Ends what ran into a limit or out of calls; the figures are those of the session's row."""

    async def close_refinement(state: RefinementState, runtime: Runtime[Identity]) -> RefinementState:
        session = await refinement_session(provide, state, runtime)
        ending = state["ending"]
        if ending is not None and ending != "completed":
            await finish(session, ending)
        row = await session.read(lambda scoped: refinements.one(scoped, session.claim.id))
        return {**row.as_result(), "resumed": state["resumed"]}

    return close_refinement
