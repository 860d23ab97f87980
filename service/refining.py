"""Refinement as methods of `Mnemic`: an agent's core memory compressed by itself, looked at and undone as a whole."""

from functools import cached_property
from typing import TYPE_CHECKING, cast
from uuid import UUID

from mnemic.operations.refinement.release import letting_go
from mnemic.operations.run.identity import to_identity
from mnemic.operations.run.resources import Provider, Resources
from mnemic.operations.run.run_graph import run_graph
from mnemic.service.asked import MEMORY_ID, REFINEMENTS, REFINING, ROLLING
from mnemic.service.governance import rolling_back
from mnemic.service.governance.own import owner
from mnemic.state.checking import checked
from mnemic.state.identity import Identity
from mnemic.state.refinement import Refinement, RefinementResult
from mnemic.state.rollback import Rollback
from mnemic.storage import refinements

if TYPE_CHECKING:
    from mnemic.graphs.refinement import RefinementGraph


class OwnRefinement:
    """Sessions in which an agent works on its own core memory, apart from any conversation (seed C)."""

    _resources: Resources
    _provide: Provider

    def refinement(self) -> "RefinementGraph":
        """The compiled refinement graph."""
        return self._refinement

    @cached_property
    def _refinement(self) -> "RefinementGraph":
        from mnemic.graphs.refinement import build_refinement  # here, for few processes refine

        return build_refinement(self._provide)

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
        async with letting_go():
            return cast(RefinementResult, await run_graph(self._refinement, given, who))

    async def refinements(self, identity: Identity, *, limit: int = 100) -> list[Refinement]:
        """Refinements of the identity's scope keys, newest first: figures only."""
        who, asked = to_identity(identity), checked(REFINEMENTS, {"limit": limit})
        async with self._resources.database.scoped(who) as scoped:
            return await refinements.listed(scoped, who.scope_keys, most=asked["limit"])

    async def undo_refinement(
        self,
        identity: Identity,
        refinement_id: UUID | str,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undoes as one operation all that a refinement did to the person's memories.

        One that protected memories is for an administrator to undo.

        Raises:
            UnknownOperationError: no such refinement of this person's memories, or one that changed none.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        who, own = owner(identity)
        wanted = checked(MEMORY_ID, refinement_id, strict=None)
        how = checked(ROLLING, {"cascade": cascade, "skip_erased": skip_erased, "dry_run": dry_run}, strict=None)
        transact = rolling_back.as_person(self._resources.database, who)
        return await rolling_back.undo_refinement(transact, own, wanted, how)
