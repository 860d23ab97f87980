"""What administrators do about refinement, blind: protect memories, look at sessions and undo them."""

from uuid import UUID

from mnemic.service.asked import AGENT_ID, MEMORY_ID, REFINEMENTS, ROLLING
from mnemic.service.governance import rolling_back
from mnemic.state.checking import checked
from mnemic.state.errors import UnknownMemoryError
from mnemic.state.refinement import Refinement
from mnemic.state.rollback import Rollback
from mnemic.storage import protection, refinements
from mnemic.storage.database import Database, Scoped


class RefinementOfAgents:
    """Refinement of any agent's memories: what it must leave alone, what it did, and that undone."""

    _database: Database
    _actor: str

    async def protect(self, agent_id: str, memory_id: UUID | str) -> bool:
        """Makes a living memory constitutional: nobody changes, merges or forgets it until an administrator lifts that.

        An erasure by the person concerned takes it all the same.

        Returns:
            Whether it was unprotected before.

        Raises:
            UnknownMemoryError: the agent has no living memory of this id.
            InvalidInputError: a value that cannot be used.
        """
        return await self._set_protection(agent_id, memory_id, protected=True)

    async def unprotect(self, agent_id: str, memory_id: UUID | str) -> bool:
        """Lifts the protection of a living memory, whoever protected it.

        Returns:
            Whether it was protected before.

        Raises:
            UnknownMemoryError, InvalidInputError: as `protect`.
        """
        return await self._set_protection(agent_id, memory_id, protected=False)

    async def refinements(self, agent_id: str, *, limit: int = 100) -> list[Refinement]:
        """An agent's refinements, newest first, those too that have not ended: figures only.

        Raises:
            InvalidInputError: a value that cannot be used.
        """
        agent, asked = checked(AGENT_ID, agent_id), checked(REFINEMENTS, {"limit": limit})
        async with self._database.administered(agent, self._actor) as scoped:
            return await refinements.listed(scoped, None, most=asked["limit"])

    async def undo_refinement(
        self,
        agent_id: str,
        refinement_id: UUID | str,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undoes as one operation all that a refinement did, its protections too.

        Raises:
            UnknownOperationError: the agent has no such refinement, or one that changed nothing.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        agent, wanted = checked(AGENT_ID, agent_id), checked(MEMORY_ID, refinement_id, strict=None)
        how = checked(ROLLING, {"cascade": cascade, "skip_erased": skip_erased, "dry_run": dry_run}, strict=None)
        transact = rolling_back.as_administrator(self._database, agent, self._actor)
        return await rolling_back.undo_refinement(transact, None, wanted, how)

    async def _set_protection(self, agent_id: str, memory_id: UUID | str, *, protected: bool) -> bool:
        agent, wanted = checked(AGENT_ID, agent_id), checked(MEMORY_ID, memory_id, strict=None)

        async def act(scoped: Scoped) -> bool:
            changed = await protection.set_protection(scoped, wanted, protected=protected)
            if changed is None:
                raise UnknownMemoryError
            return changed

        return await self._database.administer(agent, self._actor, act)
