"""How a refinement begins: what there is to do, and the session that a run begins or resumes."""

import asyncio
from typing import Any, NamedTuple
from uuid import uuid4

from mnemic.operations.refinement.session import CoreMemoryEditor, RefinementSession
from mnemic.operations.run.identity import require_own_scope
from mnemic.operations.run.resources import Resources
from mnemic.policy.refinement.batching import batches
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, RefinementRunningError
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.refinement import LedgerEntry, RefinementResult
from mnemic.state.settings import Settings
from mnemic.storage import leases, refinements, scopes
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction


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


class Opened(NamedTuple):
    """A session that this run holds, and whether it was begun before."""

    session: RefinementSession
    core: CoreMemory
    is_resumed: bool


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


async def open_session(resources: Resources, identity: Identity, lease: Lease, *, forced: bool) -> Opened | CoreMemory:
    """Begins a session under this lease, or resumes one that was broken off; the core memory where none is due.

    Raises:
        RefinementRunningError: somebody else's is running.
        InvalidInputError: the scope key is none of this identity's.
        RefusedIdentityError: others share it, and a server's client asks.
        CategoryRefusedError: the role has no allowlist, or does not read what is always in context.
    """
    key = lease.scope_key
    allowed = _require_refinable(resources, identity, key)

    async def act(scoped: ScopedTransaction) -> Opened | CoreMemory:
        core = await _core_memory(scoped, key, resources.settings)
        if not core.is_due(forced=forced):
            return core
        await scoped.begin_operation("refinement")  # from here on the agent's writers come one after the other
        running = await refinements.running(scoped, key)
        # whoever asks for a refinement waits for no failure of the last one
        if await leases.claim(scoped, lease, resources.settings, forced=True) is None:
            raise _is_running(running)
        claim = Claim(id=running.id if running else uuid4(), scope_key=key, holder=lease.holder)
        if running is None:
            await refinements.begin(scoped, claim, core.ledger, target=core.settings.refinement_target)
        session = RefinementSession(resources=resources, settings=core.settings, identity=identity, claim=claim)
        return Opened(session, core, is_resumed=running is not None)

    return await resources.database.write(identity, act, only=key, categories=allowed)


async def first_batches(session: RefinementSession) -> list[list[str]]:
    """Removes exact duplicates, read by nobody, and cuts what is left into batches of ids."""

    async def remove_duplicates(editor: CoreMemoryEditor) -> int:
        return await refinements.duplicates(editor.scoped, remove=True)

    _, ledger = await session.run_operation("dedup", remove_duplicates)
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
    return CoreMemory(overrides=overrides, settings=settings.overridden(overrides), ledger=ledger, running=running)


def _is_running(running: refinements.Running | None) -> RefinementRunningError:
    age = running.age if running else 0
    return RefinementRunningError(
        f"a refinement of this scope key has been running for {age:.0f} seconds: wait until it has ended"
    )
