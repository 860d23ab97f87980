"""One refinement session: how it begins, its transactions, and the rules by which a model's numbers become memories."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid4

from mnemic.operations.run.identity import require_own_scope
from mnemic.operations.run.resources import Resources
from mnemic.policy.refinement import batches, lost_memories, removable
from mnemic.policy.text.shape import count_tokens
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
    """A session as the run that holds it works on it: its transactions see its scope key and no other."""

    resources: Resources
    #: What the agent overrides of the settings.
    overrides: dict[str, Any]
    identity: Identity
    claim: Claim
    #: The memories as the model was shown them last, by the small numbers that it calls them by: never by their ids,
    #: and the same for the whole run.
    shown: dict[int, LedgerEntry] = field(default_factory=dict)
    #: The lost words that the model was told of when it first wanted to end.
    told: list[str] = field(default_factory=list)

    @cached_property
    def settings(self) -> Settings:
        """The agent's own."""
        return self.resources.settings.overridden(self.overrides)

    async def transact(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """What `act` returns once it is committed; it may run more than once."""
        key = self.claim.lease.scope_key
        return await self.resources.database.write(self.identity, act, only=key, categories=self.allowed)

    async def run_operation(
        self, reason: str, act: Callable[["CoreMemoryEditor"], Awaitable[Result]]
    ) -> tuple[Result, list[LedgerEntry]]:
        """Does one operation: what `act` returns, and the core memory after it.

        Raises:
            RefinementRefusedError: what the call asks for may not be done; nothing was written.
            RefinementOverError: the session has ended, or is no longer this run's.
        """

        async def operation(scoped: ScopedTransaction) -> tuple[Result, list[LedgerEntry]]:
            await refinements.begin_act(scoped, self.claim, reason)
            entries = {entry.id: entry for entry in await refinements.ledger(scoped)}
            return await act(CoreMemoryEditor(self, scoped, entries)), await refinements.ledger(scoped)

        return await self.transact(operation)

    def show(self, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """The entries with their numbers, new ones for those not seen before; the model is about to be told of them."""
        numbered: list[LedgerEntry] = []
        for entry in entries:
            number = self.number_of(entry.id) or len(self.shown) + 1
            self.shown[number] = replace(entry, handle=number)
            numbered.append(self.shown[number])
        return numbered

    def number_of(self, memory_id: UUID) -> int | None:
        """The number of a memory; None for one that was not shown."""
        return next((number for number, entry in self.shown.items() if entry.id == memory_id), None)

    async def begin_batch(self, ids: Sequence[str], progress: refinements.Progress) -> Batch:
        """What the model is shown of these memories, how much there is of all of them, and may still be done."""
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
        """Tokens that may be protected."""
        return self.settings.refinement_protected_percent * self.settings.refinement_target // 100

    @property
    def allowed(self) -> tuple[str, ...]:
        """The categories that the role may read."""
        return self.resources.categories.of_role(self.identity.role).categories


class Replaced(NamedTuple):
    """A memory that a text replaces, and what went into it when the session began."""

    entry: LedgerEntry
    originals: Sequence[Original]

    @property
    def tokens(self) -> int:
        """The most that may stand in its place: what an earlier step has shortened may grow again."""
        return max(self.entry.tokens, sum(count_tokens(original.content) for original in self.originals))


@dataclass(frozen=True)
class CoreMemoryEditor:
    """The core memory inside one operation, and what may be done to it."""

    session: RefinementSession
    scoped: ScopedTransaction
    #: As they are now, by id.
    entries: dict[UUID, LedgerEntry]

    def require_editable(self, *numbers: int, may_be_consolidation: bool = False) -> list[LedgerEntry]:
        """The memories behind these numbers, as the model was shown them.

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
        """How the model knows the living memory that says this already; of an update, another one of its kind."""
        for entry in self.entries.values():
            is_same_kind = of is None or (entry.kind, entry.subject_user_id) == (of.kind, of.subject_user_id)
            if entry.content == text and is_same_kind and (of is None or entry.id != of.id):
                number = self.session.number_of(entry.id)  # None: of a conversation meanwhile, and not shown
                return f"[{number}]" if number else "another memory"
        return None

    async def replaced(self, *entries: LedgerEntry) -> list[Replaced]:
        """The memories, each with what went into it."""
        claim = self.session.claim
        return [Replaced(entry, await refinements.originals(self.scoped, claim, entry)) for entry in entries]

    async def count_lost(self, replaced: Sequence[Replaced], text: str) -> tuple[list[int], int]:
        """Counts what a text loses of the memories that it replaces; their numbers, and how many more may be lost.

        There is one number for each memory of before the session that went into them. A text is measured by what these
        said when the session began, so many small steps lose no more than one. What an earlier step has lost does not
        count again.

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
    """Begins a session under this lease, or resumes one that was broken off.

    Returns:
        What there is to do, and the session; None where none is due, or it is a dry run.

    Raises:
        RefinementRunningError: somebody else's is running.
        InvalidInputError: the scope key is none of this identity's.
        RefusedIdentityError: others share it, and a server's client asks.
        CategoryRefusedError: the role has no allowlist, or does not read what is always in context.
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
        # whoever asks for a refinement waits for no failure of the last one
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
    """What there is to do: due where it has outgrown its budget, was broken off, or there is something to force."""
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
    """Removes exact duplicates, read by nobody, and cuts what is left into batches of ids."""
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
