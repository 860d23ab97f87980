"""Refinement as methods of `Mnemic`: an agent's core memory compressed by itself, and looked at."""

from typing import cast

from mnemic.operations.refinement.release import release_on_cancel
from mnemic.operations.run.graph import run_graph
from mnemic.service.asked import REFINEMENTS, REFINING
from mnemic.service.base import MemoryBase
from mnemic.state.checking import checked
from mnemic.state.identity import Identity, to_identity
from mnemic.state.refinement import Refinement, RefinementResult
from mnemic.storage import refinements


class OwnRefinement(MemoryBase):
    """Sessions in which an agent works on its own core memory, apart from any conversation."""

    async def refine(
        self, identity: Identity, scope_key: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> RefinementResult:
        """Refines the core memory of one scope key, where it has outgrown its budget; goes on with what was broken off.

        Its agent, the configured `agent` model in the agent's persona, merges, shortens, deletes and protects memories
        by tools that exist in this session alone. Each act is an operation of its own; `undo_refinement` undoes all.

        Args:
            scope_key: whose memory, such as `user:ana`; None: the agent's own.
            force: also where the memory is within its budget.
            dry_run: only tells what there is to do.

        Raises:
            RefinementRunningError: another one of the same scope key is running; the message tells for how long.
            RefinementOverError: this run was frozen for so long that another one has taken the session up.
            ModelError: the model failed; what was done stays done, and the next call goes on.
            CategoryRefusedError: the identity's role does not read what is always in context.
            InvalidInputError: the scope key is none of the identity's.
        """
        who = to_identity(identity)
        asked = checked(REFINING, {"scope_key": scope_key, "force": force, "dry_run": dry_run}, strict=None)
        given = {name: value for name, value in asked.items() if value is not None}
        async with release_on_cancel():
            return cast(RefinementResult, await run_graph(self.graphs.refinement, given, who))

    async def refinements(self, identity: Identity, *, limit: int = 100) -> list[Refinement]:
        """Refinements of the identity's scope keys, newest first: figures only."""
        who, asked = to_identity(identity), checked(REFINEMENTS, {"limit": limit})
        async with self.resources.database.scoped(who) as scoped:
            return await refinements.listed(scoped, who.scope_keys, most=asked["limit"])
