"""What the steps of one refinement share: the session, its scope key and its transactions."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from uuid import UUID

from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from mnemic.operations.refinement.editor import Core
from mnemic.operations.refinement.handles import Handles
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider, Resources
from mnemic.policy.refinement.limits import protectable, removable
from mnemic.prompts import refinement_tools as told
from mnemic.state.graphs import RefinementState
from mnemic.state.identity import Identity
from mnemic.state.refinement import Budget, LedgerEntry
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.database import Scoped
from mnemic.storage.refinements import Claim

Result = TypeVar("Result")


@dataclass(frozen=True)
class Refining:
    """One session as the run that holds it works on it: its scope key and no other exists in its transactions."""

    resources: Resources
    #: The agent's own.
    settings: Settings
    identity: Identity
    claim: Claim
    handles: Handles = field(default_factory=Handles)

    async def read(self, act: Callable[[Scoped], Awaitable[Result]]) -> Result:
        """What `act` reads."""
        async with self.resources.database.scoped(self.identity, only=self._key, categories=self.allowed) as scoped:
            return await act(scoped)

    async def write(self, act: Callable[[Scoped], Awaitable[Result]]) -> Result:
        """What `act` returns once it is committed; it may run more than once."""
        return await self.resources.database.write(self.identity, act, only=self._key, categories=self.allowed)

    async def cut(self, reason: str, act: Callable[[Scoped, Core], Awaitable[Result]]) -> tuple[Result, "After"]:
        """One operation of the knife: what `act` returns, and what there is after it.

        Raises:
            KnifeRefusedError: what was asked may not be done; nothing was written.
            RefinementOverError: the session has ended, or is no longer this run's.
        """

        async def operation(scoped: Scoped) -> tuple[Result, list[LedgerEntry]]:
            await refinements.begin_knife(scoped, self.claim, reason)
            entries = await refinements.ledger(scoped)
            core = Core(scoped, entries, claim=self.claim, handles=self.handles, settings=self.settings)
            return await act(scoped, core), await refinements.ledger(scoped)

        result, after = await self.write(operation)
        return result, After(self, after)

    def budget(self, entries: Sequence[LedgerEntry], progress: refinements.Progress) -> Budget:
        """How much there is, and may still be done."""
        settings = self.settings
        most = removable(settings.refinement_removed_percent, progress.memories_before)
        return Budget(
            now=sum(entry.tokens for entry in entries),
            target=settings.refinement_target,
            protected=sum(entry.tokens for entry in entries if entry.protected),
            most_protected=protectable(settings.refinement_protected_percent, settings.refinement_target),
            removable=max(0, most - progress.removed),
        )

    @property
    def _key(self) -> str:
        return self.claim.scope_key

    @property
    def allowed(self) -> tuple[str, ...]:
        """The categories that the role may read."""
        return self.resources.categories.of_role(self.identity.role).categories


class After(NamedTuple):
    """The core memory after an operation."""

    refining: Refining
    entries: list[LedgerEntry]

    def shown(self, memory_id: UUID) -> LedgerEntry:
        """A memory as it is now, which the model is about to be told of."""
        return self.refining.handles.numbered(entry for entry in self.entries if entry.id == memory_id)[0]

    @property
    def usage(self) -> str:
        """What every answer ends with."""
        tokens = sum(entry.tokens for entry in self.entries)
        return told.usage(tokens, self.refining.settings.refinement_target, len(self.entries))


#: Makes the tools of one session; a room further out has them.
KnifeFactory = Callable[[Refining], Sequence[BaseTool]]


async def refining_of(provide: Provider, state: RefinementState, runtime: Runtime[Identity]) -> Refining:
    """The session of this run."""
    resources = await provide()
    return Refining(
        resources=resources,
        settings=resources.settings.overridden(state["overrides"]),
        identity=identity_of(runtime),
        claim=Claim(id=UUID(state["refinement_id"] or ""), scope_key=state["scope_key"], holder=UUID(state["holder"])),
        handles=Handles.from_plain(state.get("handles", {})),
    )
