"""One refinement session: its transactions, and the memories behind a model's numbers."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar
from uuid import UUID

from mnemic.memory.refinement.editor import ContextMemoryEditor
from mnemic.memory.refinement.losses import max_removals
from mnemic.memory.runtime.resources import Resources
from mnemic.state.identity import Identity
from mnemic.state.refinement import Batch, Budget, LedgerEntry, RefinementState, total_tokens
from mnemic.state.settings import Settings
from mnemic.storage import refinements
from mnemic.storage.refinements import Claim, Progress
from mnemic.storage.transaction import ScopedTransaction

Result = TypeVar("Result")


@dataclass(frozen=True)
class RefinementSession:
    """A session in the run that holds its lease. Its transactions see one scope key only."""

    resources: Resources
    #: Settings that the agent overrides.
    overrides: dict[str, Any]
    identity: Identity
    claim: Claim
    #: Memories as the model last saw them, by the small numbers that replace their ids during the run.
    by_number: dict[int, LedgerEntry] = field(default_factory=dict)
    #: Lost words that the model got at its first attempt to end.
    reported_losses: list[str] = field(default_factory=list)

    @property
    def scope_key(self) -> str:
        """The scope key that is refined."""
        return self.claim.lease.scope_key

    @cached_property
    def settings(self) -> Settings:
        """The agent's own settings."""
        return self.resources.settings.overridden(self.overrides)

    @property
    def max_protected_tokens(self) -> int:
        """Maximum number of protected tokens."""
        return self.settings.refinement_protected_percent * self.settings.refinement_target // 100

    @property
    def allowed(self) -> tuple[str, ...]:
        """Categories that the role may read."""
        return self.resources.categories.of_role(self.identity.role).categories

    async def transact(self, run: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """Return the result of `run` in a transaction, after its commit. It runs again after a conflict."""
        database = self.resources.database
        return await database.write(self.identity, run, only=self.scope_key, categories=self.allowed)

    async def run_operation(
        self, reason: str, edit: Callable[[ContextMemoryEditor], Awaitable[Result]]
    ) -> tuple[Result, list[LedgerEntry]]:
        """Run one operation; return the result of `edit`, and the context memories after it.

        Raises:
            RefinementRefusedError: if the call is not allowed; nothing was written.
            RefinementOverError: if the session has ended, or another run holds it.
        """
        return await self.transact(partial(self._run_operation, reason=reason, edit=edit))

    async def _run_operation(
        self, tx: ScopedTransaction, reason: str, edit: Callable[[ContextMemoryEditor], Awaitable[Result]]
    ) -> tuple[Result, list[LedgerEntry]]:
        await refinements.begin_operation(tx, self.claim, reason)
        result = await edit(ContextMemoryEditor(self, tx, await read_entries(tx)))
        return result, await refinements.read_ledger(tx)

    def show(self, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Return the entries with their numbers, new ones if not seen before, and record them as shown."""
        numbered: list[LedgerEntry] = []
        for entry in entries:
            number = self.number_of(entry.id) or len(self.by_number) + 1
            self.by_number[number] = replace(entry, handle=number)
            numbered.append(self.by_number[number])
        return numbered

    def show_memory(self, entries: Iterable[LedgerEntry], memory_id: UUID) -> LedgerEntry:
        """Return one of the entries with its number, and record it as shown."""
        (entry,) = self.show([entry for entry in entries if entry.id == memory_id])
        return entry

    def number_of(self, memory_id: UUID) -> int | None:
        """Return the number of a memory, or None if it was not shown."""
        for number, entry in self.by_number.items():
            if entry.id == memory_id:
                return number
        return None

    async def begin_batch(self, ids: Sequence[str], progress: Progress) -> Batch:
        """Return the batch of these memories for the model, with the size of all of them and the remaining limits."""
        entries = await self.transact(refinements.read_ledger)
        limit = max_removals(self.settings.refinement_removed_percent, progress.memories_before)
        budget = Budget(
            now=total_tokens(entries),
            target=self.settings.refinement_target,
            protected=protected_tokens(entries),
            most_protected=self.max_protected_tokens,
            removable=max(0, limit - progress.removed),
            removed=progress.removed,
        )
        batch = [entry for entry in entries if str(entry.id) in ids]
        return Batch(tuple(self.show(batch)), budget)


async def read_entries(tx: ScopedTransaction) -> dict[UUID, LedgerEntry]:
    """Return the context memories of the transaction's scope key by their ids."""
    return {entry.id: entry for entry in await refinements.read_ledger(tx)}


def protected_tokens(entries: Iterable[LedgerEntry]) -> int:
    """Return the number of tokens of protected memories."""
    return total_tokens(entry for entry in entries if entry.protected)


def restore_session(resources: Resources, identity: Identity, state: RefinementState) -> RefinementSession:
    """Return the session that a run has opened, from the channels of its graph."""
    return RefinementSession(
        resources=resources,
        overrides=state["overrides"],
        identity=identity,
        claim=Claim(UUID(state["refinement_id"] or ""), state["lease"]),
        by_number=dict(state["by_number"]),
        reported_losses=list(state["reported_losses"]),
    )
