"""One refinement session: its beginning, its transactions, and the memories behind a model's numbers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid4

from mnemic.memory.refinement.rules import batches, lost_memories, removable
from mnemic.memory.runtime.identity import require_own_scope
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import count_tokens
from mnemic.prompts.refine import CHANGED, UNKNOWN, bracketed
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, RefinementRefusedError, RefinementRunningError
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity
from mnemic.state.refinement import Batch, Budget, LedgerEntry, Refinement, RefinementResult
from mnemic.state.settings import Settings
from mnemic.storage import leases, refinements, scopes
from mnemic.storage.refinements import Claim, Original
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
    #: The memories as the model last saw them, by the small numbers that stand in for their ids during the run.
    shown: dict[int, LedgerEntry] = field(default_factory=dict)
    #: The list of lost words that the model got at its first attempt to end.
    told: list[str] = field(default_factory=list)

    @cached_property
    def settings(self) -> Settings:
        """The agent's own settings."""
        return self.resources.settings.overridden(self.overrides)

    async def transact(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """Run `act` in a transaction, more than once if necessary, and return its result after the commit."""
        key = self.claim.lease.scope_key
        return await self.resources.database.write(self.identity, act, only=key, categories=self.allowed)

    async def run_operation(
        self, reason: str, act: Callable[["CoreMemoryEditor"], Awaitable[Result]]
    ) -> tuple[Result, list[LedgerEntry]]:
        """Run one operation; return the result of `act` and the core memory after it.

        Raises:
            RefinementRefusedError: the call is not allowed; nothing was written.
            RefinementOverError: the session has ended, or is no longer this run's.
        """

        async def operation(scoped: ScopedTransaction) -> tuple[Result, list[LedgerEntry]]:
            await refinements.begin_act(scoped, self.claim, reason)
            entries = {entry.id: entry for entry in await refinements.ledger(scoped)}
            return await act(CoreMemoryEditor(self, scoped, entries)), await refinements.ledger(scoped)

        return await self.transact(operation)

    def show(self, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Give the entries their numbers, new ones if not seen before, and record them as shown to the model."""
        numbered: list[LedgerEntry] = []
        for entry in entries:
            number = self.number_of(entry.id) or len(self.shown) + 1
            self.shown[number] = replace(entry, handle=number)
            numbered.append(self.shown[number])
        return numbered

    def number_of(self, memory_id: UUID) -> int | None:
        """Return the number of a memory; None if it was not shown."""
        return next((number for number, entry in self.shown.items() if entry.id == memory_id), None)

    async def begin_batch(self, ids: Sequence[str], progress: refinements.Progress) -> Batch:
        """Return the batch of these memories for the model, with the size of all of them and the remaining limits."""
        entries = await self.transact(refinements.ledger)
        most_removed = removable(self.settings.refinement_removed_percent, progress.memories_before)
        budget = Budget(
            now=sum(entry.tokens for entry in entries),
            target=self.settings.refinement_target,
            protected=sum(entry.tokens for entry in entries if entry.protected),
            most_protected=self.most_protected,
            removable=max(0, most_removed - progress.removed),
            removed=progress.removed,
        )
        return Batch(tuple(self.show(entry for entry in entries if str(entry.id) in ids)), budget)

    @property
    def most_protected(self) -> int:
        """Return the tokens that may be protected."""
        return self.settings.refinement_protected_percent * self.settings.refinement_target // 100

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the categories that the role may read."""
        return self.resources.categories.of_role(self.identity.role).categories


class Replaced(NamedTuple):
    """A memory that a text replaces, with its originals at the beginning of the session."""

    entry: LedgerEntry
    originals: Sequence[Original]

    @property
    def tokens(self) -> int:
        """Return the maximum length of its replacement: a text that an earlier step has shortened may grow again."""
        return max(self.entry.tokens, sum(count_tokens(original.content) for original in self.originals))


@dataclass(frozen=True)
class CoreMemoryEditor:
    """The core memory inside one operation, with the checks of every change."""

    session: RefinementSession
    scoped: ScopedTransaction
    #: The current entries by id.
    entries: dict[UUID, LedgerEntry]

    def require_editable(self, *numbers: int, may_be_consolidation: bool = False) -> list[LedgerEntry]:
        """Return the memories behind these numbers, as the model saw them.

        Raises:
            RefinementRefusedError: a number is named twice or unknown, or its memory is gone, was changed meanwhile, is
                protected, or is the consolidation where that may not be; all of them are named.
        """
        if twice := [number for number in dict.fromkeys(numbers) if numbers.count(number) > 1]:
            raise RefinementRefusedError(f"{bracketed(twice)} is named more than once: name each memory once")
        shown = self.session.shown
        if gone := [number for number in numbers if number not in shown or shown[number].id not in self.entries]:
            raise RefinementRefusedError(UNKNOWN.format(numbers=bracketed(gone)))
        entries = [replace(self.entries[shown[number].id], handle=number) for number in numbers]
        if fixed := [entry.handle for entry in entries if entry.protected]:
            raise RefinementRefusedError(f"{bracketed(fixed)} is protected: leave it as it is, and out of the call")
        for entry in entries:
            if shown[entry.handle].version != entry.version:
                raise RefinementRefusedError(CHANGED.format(number=entry.handle))
            if entry.kind == "consolidation" and not may_be_consolidation:
                raise RefinementRefusedError(f"[{entry.handle}] is the consolidation: only update_memory can change it")
        return entries

    def twin(self, text: str, *, of: LedgerEntry | None = None) -> str | None:
        """Return the name of an active memory with the same text; for an update, of another memory of its kind."""
        for entry in self.entries.values():
            is_same_kind = of is None or (entry.kind, entry.subject_user_id) == (of.kind, of.subject_user_id)
            if entry.content == text and is_same_kind and (of is None or entry.id != of.id):
                number = self.session.number_of(entry.id)  # None: of a conversation meanwhile, and not shown
                return f"[{number}]" if number else "another memory"
        return None

    async def replaced(self, *entries: LedgerEntry) -> list[Replaced]:
        """Return the memories, each with its originals."""
        claim = self.session.claim
        return [Replaced(entry, await refinements.originals(self.scoped, claim, entry)) for entry in entries]

    async def count_lost(self, replaced: Sequence[Replaced], text: str) -> tuple[list[int], int]:
        """Count the memories that a text loses; return their numbers, and how many more may be lost.

        Each original of before the session counts once. A text is compared with the originals at the beginning of the
        session, so many small steps lose no more than one. The losses of an earlier step do not count again.

        Raises:
            RefinementRefusedError: the session would lose too many.
        """
        numbers = [entry.handle for entry, originals in replaced for _ in originals]
        was_lost = [was for entry, originals in replaced for was in _lost(originals, entry.content)]
        now_lost = _lost([original for _, originals in replaced for original in originals], text)
        lost = [number for number, was, now in zip(numbers, was_lost, now_lost, strict=True) if now and not was]
        progress = await refinements.count(self.scoped, self.session.claim, removed=len(lost))
        most = removable(self.session.settings.refinement_removed_percent, progress.memories_before)
        if progress.removed > most:
            raise RefinementRefusedError(
                f"a session may remove {most} memories and no more: keep what {bracketed(lost)} says, in fewer words"
            )
        return lost, most - progress.removed


def _lost(originals: Sequence[Original], text: str) -> list[bool]:
    return lost_memories([one.content for one in originals], text, about=[one.subject for one in originals])


async def open_session(
    resources: Resources, identity: Identity, lease: Lease, *, forced: bool, dry_run: bool
) -> tuple[RefinementResult, RefinementSession | None]:
    """Begin a session under this lease, or resume one that broke off.

    Returns:
        The work to do, and the session; None if none is due, or for a dry run.

    Raises:
        RefinementRunningError: another run holds the session.
        InvalidInputError: the scope key is none of this identity's.
        RefusedIdentityError: others share it, and the request comes from a server's client.
        CategoryRefusedError: the role has no allowlist, or does not read the always-in-context memories.
    """
    key = lease.scope_key
    _require_refinable(resources, identity, key)
    begun = RefinementSession(resources, {}, identity, Claim(uuid4(), lease))

    async def act(scoped: ScopedTransaction) -> tuple[RefinementResult, RefinementSession | None]:
        overrides, ledger = await scopes.agent_settings(scoped), await refinements.ledger(scoped)
        running, session = await refinements.running(scoped, key), replace(begun, overrides=overrides)
        found = _to_do(session, ledger, running, forced=forced)
        if dry_run:
            if running and running.is_held:
                raise _is_running(running)
            return {**found, "duplicates": await refinements.duplicates(scoped, remove=False)}, None
        if found["outcome"] == "not_due":
            return found, None
        await scoped.begin_operation("refinement")  # from here on the agent's writers come one after the other
        running = await refinements.running(scoped, key)
        # a requested refinement does not wait for the pause after a failure
        if await leases.claim(scoped, lease, resources.settings, forced=True) is None:
            raise _is_running(running)
        if running is None:
            await refinements.begin(scoped, session.claim, ledger, target=session.settings.refinement_target)
            return found, session
        return {**found, "resumed": True}, replace(session, claim=session.claim._replace(id=running.id))

    return await begun.transact(act)


def _to_do(
    session: RefinementSession, ledger: Sequence[LedgerEntry], running: Refinement | None, *, forced: bool
) -> RefinementResult:
    """Return the work to do: due if the memory has outgrown its budget, a session broke off, or it is forced."""
    tokens, settings = sum(entry.tokens for entry in ledger), session.settings
    is_due = running is not None or tokens > settings.refinement_budget_tokens or (forced and bool(ledger))
    return {
        "scope_key": session.claim.lease.scope_key,
        "outcome": "planned" if is_due else "not_due",
        "refinement_id": str(running.id) if running else None,
        "resumed": running is not None,
        "tokens_before": tokens,
        "target_tokens": settings.refinement_target,
        "memories_before": len(ledger),
        "protected": sum(entry.protected for entry in ledger),
    }


async def first_batches(session: RefinementSession) -> list[list[str]]:
    """Remove exact duplicates in SQL, and cut the other memories into batches of ids."""
    _, ledger = await session.run_operation("dedup", lambda editor: refinements.duplicates(editor.scoped, remove=True))
    # in a thread: of 8,000 memories it takes a second
    cut = await asyncio.to_thread(batches, ledger, tokens=session.settings.refinement_batch_tokens)
    return [[str(entry.id) for entry in batch] for batch in cut]


def _require_refinable(resources: Resources, identity: Identity, key: str) -> None:
    if key not in identity.scope_keys:
        raise InvalidInputError("scope_key: the one to refine is none of this identity's")
    require_own_scope(identity, key)
    if not resources.categories.of_role(identity.role).standing:
        raise CategoryRefusedError("this role does not read core memories, so it cannot refine them")


def _is_running(running: Refinement | None) -> RefinementRunningError:
    age = (datetime.now(UTC) - running.started_at).total_seconds() if running else 0
    return RefinementRunningError(
        f"a refinement of this scope key has been running for {max(0, age):.0f} seconds: wait until it has ended"
    )
