"""Refinement as methods of `Mnemic`: an agent's core memory compressed by itself, and looked at."""

from typing import cast
from uuid import uuid4

from mnemic.operations.run.graph import release_lease_on_error, run_graph
from mnemic.service.base import MemoryBase
from mnemic.state.checking import Limit, check_arguments
from mnemic.state.graphs import Lease
from mnemic.state.identity import AnyIdentity
from mnemic.state.identity import scope_key as key_of
from mnemic.state.refinement import Refinement, RefinementResult
from mnemic.storage import refinements


class OwnRefinement(MemoryBase):
    """Sessions in which an agent works on its own core memory, apart from any conversation."""

    @check_arguments
    async def refine(
        self, identity: AnyIdentity, scope_key: str | None = None, *, force: bool = False, dry_run: bool = False
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
        given = {"force": force, "dry_run": dry_run} | ({"scope_key": scope_key} if scope_key is not None else {})
        run_id = uuid4()
        lease = Lease(work="refinement", scope_key=scope_key or key_of("agent", identity.agent_id), holder=run_id)
        # a cancellation between two nodes reaches neither
        async with release_lease_on_error(self.resources, identity, lease):
            return cast(RefinementResult, await run_graph(self.graphs.refinement, given, identity, run_id))

    @check_arguments
    async def refinements(self, identity: AnyIdentity, *, limit: Limit = 100) -> list[Refinement]:
        """Refinements of the identity's scope keys, newest first: figures only."""
        async with self.resources.database.scoped(identity) as scoped:
            return await refinements.listed(scoped, identity.scope_keys, most=limit)
