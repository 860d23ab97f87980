"""One refinement session: how it begins, its transactions, and the rules by which a model's numbers become memories."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, TypeVar
from uuid import UUID, uuid4

from mnemic.operations.run.identity import require_own_scope
from mnemic.operations.run.resources import Resources
from mnemic.policy.refinement import batches, lost_memories, protectable, removable
from mnemic.prompts.refine import bracketed
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, RefinementRefusedError, RefinementRunningError
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.refinement import Budget, Handles, LedgerEntry, RefinementResult
from mnemic.state.settings import Settings
from mnemic.storage import leases, refinements, scopes
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction

Result = TypeVar("Result")


class CoreMemory(NamedTuple):
    """The core memory of a scope key, and the session on it that has not ended."""

    #: Of its agent: what it overrides, and all its settings.
    overrides: dict[str, Any]
    settings: Settings
    ledger: list[LedgerEntry]
    running: refinements.Running | None

    @property
    def tokens(self) -> int:
        """Of all of it."""
        return sum(entry.tokens for entry in self.ledger)

    def is_due(self, *, forced: bool) -> bool:
        """Whether it has outgrown its budget, a session on it was broken off, or there is something to force."""
        is_over = self.tokens > self.settings.refinement_budget_tokens
        return is_over or self.running is not None or (forced and bool(self.ledger))

    def as_result(self, key: str) -> RefinementResult:
        """Its figures."""
        return {
            "scope_key": key,
            "tokens_before": self.tokens,
            "target_tokens": self.settings.refinement_target,
            "memories_before": len(self.ledger),
            "protected": sum(entry.protected for entry in self.ledger),
        }


@dataclass(frozen=True)
class RefinementSession:
    """A session as the run that holds it works on it: its transactions see its scope key and no other."""

    resources: Resources
    #: The agent's own.
    settings: Settings
    identity: Identity
    claim: Claim
    handles: Handles = field(default_factory=Handles)

    async def read(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """What `act` reads."""
        key = self.claim.scope_key
        async with self.resources.database.scoped(self.identity, only=key, categories=self.allowed) as scoped:
            return await act(scoped)

    async def write(self, act: Callable[[ScopedTransaction], Awaitable[Result]]) -> Result:
        """What `act` returns once it is committed; it may run more than once."""
        key = self.claim.scope_key
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

        return await self.write(operation)

    def show(self, entries: Iterable[LedgerEntry], memory_id: UUID) -> LedgerEntry:
        """A memory as it is now, which the model is about to be told of."""
        return self.handles.number(entry for entry in entries if entry.id == memory_id)[0]

    def budget(self, entries: Sequence[LedgerEntry], progress: refinements.Progress) -> Budget:
        """How much there is, and may still be done."""
        most_removed = removable(self.settings.refinement_removed_percent, progress.memories_before)
        return Budget(
            now=sum(entry.tokens for entry in entries),
            target=self.settings.refinement_target,
            protected=sum(entry.tokens for entry in entries if entry.protected),
            most_protected=self.most_protected,
            removable=max(0, most_removed - progress.removed),
        )

    @property
    def most_protected(self) -> int:
        """Tokens that may be protected."""
        return protectable(self.settings.refinement_protected_percent, self.settings.refinement_target)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The categories that the role may read."""
        return self.resources.categories.of_role(self.identity.role).categories


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
        found = {number: self._living(number) for number in numbers}
        if gone := [number for number, entry in found.items() if entry is None]:
            refuse_unknown(*gone)
        entries = [entry for entry in found.values() if entry is not None]
        if fixed := [entry.handle for entry in entries if entry.protected]:
            raise RefinementRefusedError(f"{bracketed(fixed)} is protected: leave it as it is, and out of the call")
        for entry in entries:
            self._require_unchanged(entry)
            if entry.kind == "consolidation" and not may_be_consolidation:
                raise RefinementRefusedError(f"[{entry.handle}] is the consolidation: only update_memory can change it")
        return entries

    def twin(self, text: str, *, of: LedgerEntry | None = None) -> str | None:
        """How the model knows the living memory that says this already; of an update, another one of its kind."""
        for entry in self.entries.values():
            is_same_kind = of is None or (entry.kind, entry.subject_user_id) == (of.kind, of.subject_user_id)
            if entry.content == text and is_same_kind and (of is None or entry.id != of.id):
                number = self.session.handles.number_of(entry.id)  # None: of a conversation meanwhile, and not shown
                return f"[{number}]" if number else "another memory"
        return None

    async def count_lost(self, replaced: Sequence[LedgerEntry], text: str) -> tuple[list[int], int]:
        """Counts what a text loses of the memories that it replaces; their numbers, and how many more may be lost.

        There is one number for each memory of before the session that went into them. A text is measured by what these
        said when the session began, so many small steps lose no more than one. What an earlier step has lost does not
        count again.

        Raises:
            RefinementRefusedError: the session would lose too many.
        """
        claim = self.session.claim
        numbers: list[int] = []
        before: list[tuple[str, str]] = []
        was_lost: list[bool] = []
        for entry in replaced:
            originals = await refinements.originals(self.scoped, claim, entry)
            numbers += [entry.handle] * len(originals)
            before += originals
            was_lost += _lost(originals, entry.content)
        now_lost = _lost(before, text)
        lost = [number for number, was, now in zip(numbers, was_lost, now_lost, strict=True) if now and not was]
        progress = await refinements.count(self.scoped, claim, removed=len(lost))
        most = removable(self.session.settings.refinement_removed_percent, progress.memories_before)
        if progress.removed > most:
            raise RefinementRefusedError(
                f"a session may remove {most} memories and no more: keep what {bracketed(lost)} says, in fewer words"
            )
        return lost, most - progress.removed

    def _living(self, number: int) -> LedgerEntry | None:
        shown = self.session.handles.shown.get(number)
        entry = self.entries.get(shown.id) if shown else None
        return replace(entry, handle=number) if entry else None

    def _require_unchanged(self, entry: LedgerEntry) -> None:
        if self.session.handles.shown[entry.handle].version != entry.version:
            raise RefinementRefusedError(
                f"[{entry.handle}] was changed by somebody else meanwhile: read it again with search_memories, then "
                "decide"
            )


def _lost(originals: Sequence[tuple[str, str]], text: str) -> list[bool]:
    return lost_memories([content for content, _ in originals], text, about=[subject for _, subject in originals])


def refuse_unknown(*numbers: int) -> NoReturn:
    """Refuses numbers that were not shown, or whose memories have gone.

    Raises:
        RefinementRefusedError: always.
    """
    raise RefinementRefusedError(
        f"there is no memory {bracketed(numbers)}: use numbers of the ledger whose memories still exist"
    )


async def plan(resources: Resources, identity: Identity, key: str, *, forced: bool) -> RefinementResult:
    """What a refinement would find, without beginning it.

    Raises:
        RefinementRunningError: one is running.
        InvalidInputError, RefusedIdentityError, CategoryRefusedError: as `open_session`.
    """
    allowed = _require_refinable(resources, identity, key)
    async with resources.database.scoped(identity, only=key, categories=allowed) as scoped:
        core = await _core_memory(scoped, key, resources.settings)
        duplicates = await refinements.duplicates(scoped, remove=False)
    if core.running and core.running.is_held:
        raise _is_running(core.running)
    return {
        **core.as_result(key),
        "outcome": "planned" if core.is_due(forced=forced) else "not_due",
        "refinement_id": str(core.running.id) if core.running else None,
        "resumed": core.running is not None,
        "duplicates": duplicates,
    }


async def open_session(
    resources: Resources, identity: Identity, lease: Lease, *, forced: bool
) -> tuple[CoreMemory, RefinementSession | None]:
    """Begins a session under this lease, or resumes one that was broken off; None where none is due.

    Raises:
        RefinementRunningError: somebody else's is running.
        InvalidInputError: the scope key is none of this identity's.
        RefusedIdentityError: others share it, and a server's client asks.
        CategoryRefusedError: the role has no allowlist, or does not read what is always in context.
    """
    key = lease.scope_key
    allowed = _require_refinable(resources, identity, key)

    async def act(scoped: ScopedTransaction) -> tuple[CoreMemory, RefinementSession | None]:
        core = await _core_memory(scoped, key, resources.settings)
        if not core.is_due(forced=forced):
            return core, None
        await scoped.begin_operation("refinement")  # from here on the agent's writers come one after the other
        core = core._replace(running=await refinements.running(scoped, key))
        # whoever asks for a refinement waits for no failure of the last one
        if await leases.claim(scoped, lease, resources.settings, forced=True) is None:
            raise _is_running(core.running)
        claim = Claim(id=core.running.id if core.running else uuid4(), scope_key=key, holder=lease.holder)
        if core.running is None:
            await refinements.begin(scoped, claim, core.ledger, target=core.settings.refinement_target)
        return core, RefinementSession(resources, core.settings, identity, claim)

    return await resources.database.write(identity, act, only=key, categories=allowed)


async def first_batches(session: RefinementSession) -> list[list[str]]:
    """Removes exact duplicates, read by nobody, and cuts what is left into batches of ids."""
    _, ledger = await session.run_operation("dedup", lambda editor: refinements.duplicates(editor.scoped, remove=True))
    # in a thread: of 8,000 memories it takes a second
    cut = await asyncio.to_thread(batches, ledger, tokens=session.settings.refinement_batch_tokens)
    return [[str(entry.id) for entry in batch] for batch in cut]


def _require_refinable(resources: Resources, identity: Identity, key: str) -> tuple[str, ...]:
    """The categories that the refining role sees."""
    split_scope_key(key)
    if key not in identity.scope_keys:
        raise InvalidInputError("scope_key: the one to refine is none of this identity's")
    require_own_scope(identity, key)
    allowlist = resources.categories.of_role(identity.role)
    if not allowlist.standing:
        raise CategoryRefusedError("this role does not read core memories, so it cannot refine them")
    return allowlist.categories


async def _core_memory(scoped: ScopedTransaction, key: str, settings: Settings) -> CoreMemory:
    overrides = await scopes.agent_settings(scoped)
    ledger, running = await refinements.ledger(scoped), await refinements.running(scoped, key)
    return CoreMemory(overrides, settings.overridden(overrides), ledger, running)


def _is_running(running: refinements.Running | None) -> RefinementRunningError:
    age = running.age if running else 0
    return RefinementRunningError(
        f"a refinement of this scope key has been running for {age:.0f} seconds: wait until it has ended"
    )
