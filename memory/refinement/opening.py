"""The beginning of a refinement: begin a session, or resume one that broke off."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, cast
from uuid import UUID, uuid4

from mnemic.memory.refinement.batching import batches
from mnemic.memory.refinement.editor import ContextMemoryEditor
from mnemic.memory.refinement.session import RefinementSession
from mnemic.memory.runtime.graph import release_lease_on_error
from mnemic.memory.runtime.identity import require_own_scope, require_scope_key
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import validate
from mnemic.state.errors import CategoryRefusedError, RefinementRunningError
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity, scope_key
from mnemic.state.refinement import (
    LedgerEntry,
    Refinement,
    RefinementInput,
    RefinementOutput,
    RefinementState,
    total_tokens,
)
from mnemic.state.worker_threads import in_thread
from mnemic.storage import leases, refinements, scopes
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction


class _Opened(NamedTuple):
    """The work to do, and its session; None if no work is due, or for a dry run."""

    work: RefinementOutput
    session: RefinementSession | None


class _Options(NamedTuple):
    """Options of a refinement of the scope key of a lease."""

    resources: Resources
    lease: Lease
    is_forced: bool
    is_dry_run: bool


async def open_refinement(
    resources: Resources, identity: Identity, request: RefinementInput, holder: UUID
) -> RefinementState:
    """Begin or resume the session of the scope key if it is due; a dry run only counts the work.

    Args:
        resources: database and models.
        identity: of the run.
        request: input of the graph; without a scope key it is the agent's own.
        holder: id of the run, which holds the session's lease.

    Returns:
        The channels of the session; without a session the work alone, and no batches.

    Raises:
        RefinementRunningError: if another run holds the session.
        InvalidInputError: if the scope key does not belong to the identity.
        RefusedIdentityError: if others share it, and the request comes from a server's client.
        CategoryRefusedError: if the role has no allowlist, or does not read context memories.
    """
    request = validate(RefinementInput, request)
    key = request.get("scope_key") or scope_key("agent", identity.agent_id)
    lease = Lease(work="refinement", scope_key=key, holder=holder)
    options = _Options(resources, lease, request.get("force", False), request.get("dry_run", False))
    async with release_lease_on_error(resources, identity, lease):
        _require_refinable(resources, identity, key)
        unopened = RefinementSession(resources, {}, identity, Claim(uuid4(), lease))
        work, session = await unopened.transact(partial(_open, options=options, unopened=unopened))
        if session is None:
            return cast("RefinementState", {**work, "ending": None, "batches": []})
        ids = await _cut_into_batches(session)
    return {
        "scope_key": key,
        "refinement_id": str(session.claim.id),
        "resumed": work["resumed"],
        "lease": lease,
        "overrides": session.overrides,
        "by_number": {},
        "reported_losses": [],
        "spent": [],
        "batches": ids,
        "batch": 1,
        "turns": [],
        "ending": None if ids else "finished",  # a resumed session may have no memories left
    }


async def _open(tx: ScopedTransaction, options: _Options, unopened: RefinementSession) -> _Opened:
    key = options.lease.scope_key
    session = replace(unopened, overrides=await scopes.agent_settings(tx))
    ledger = await refinements.read_ledger(tx)
    running = await refinements.find_running(tx, key)
    work = _plan(session, ledger, running, is_forced=options.is_forced)
    if options.is_dry_run:
        if running and running.is_held:
            raise _running_error(running)
        return _Opened({**work, "duplicates": await refinements.count_duplicates(tx)}, None)
    if work["outcome"] == "not_due":
        return _Opened(work, None)
    await tx.begin_operation("refinement")  # from here on the agent's writers come one after the other
    running = await refinements.find_running(tx, key)
    # a requested refinement does not wait for the pause after a failure
    if await leases.claim(tx, options.lease, options.resources.settings, forced=True) is None:
        raise _running_error(running)
    if running is None:
        await refinements.begin(tx, session.claim, ledger, target=session.settings.refinement_target)
        return _Opened(work, session)
    return _Opened({**work, "resumed": True}, replace(session, claim=session.claim._replace(id=running.id)))


def _plan(
    session: RefinementSession, ledger: Sequence[LedgerEntry], running: Refinement | None, *, is_forced: bool
) -> RefinementOutput:
    """Return the work to do: due if the memories are over their budget, a session broke off, or it is forced."""
    tokens = total_tokens(ledger)
    is_over_budget = tokens > session.settings.refinement_budget_tokens
    is_due = is_over_budget or running is not None or (is_forced and bool(ledger))
    return {
        "scope_key": session.scope_key,
        "outcome": "planned" if is_due else "not_due",
        "refinement_id": str(running.id) if running else None,
        "resumed": running is not None,
        "tokens_before": tokens,
        "target_tokens": session.settings.refinement_target,
        "memories_before": len(ledger),
        "protected": sum(entry.protected for entry in ledger),
    }


async def _cut_into_batches(session: RefinementSession) -> list[list[str]]:
    """Remove exact duplicates in SQL, and cut the other memories into batches of ids."""
    _, ledger = await session.run_operation("dedup", _remove_duplicates)
    # in a thread: a second for 8,000 memories
    cut = await in_thread(batches, ledger, max_tokens=session.settings.refinement_batch_tokens)
    ids: list[list[str]] = []
    for batch in cut:
        ids.append([str(entry.id) for entry in batch])
    return ids


async def _remove_duplicates(editor: ContextMemoryEditor) -> int:
    return await refinements.remove_duplicates(editor.tx)


def _require_refinable(resources: Resources, identity: Identity, key: str) -> None:
    require_scope_key(identity, key)
    require_own_scope(identity, key)
    if not resources.categories.of_role(identity.role).standing:
        raise CategoryRefusedError("this role does not read the context memories, so it cannot refine them")


def _running_error(running: Refinement | None) -> RefinementRunningError:
    seconds = 0.0
    if running:
        seconds = max(0.0, (datetime.now(UTC) - running.started_at).total_seconds())
    return RefinementRunningError(
        f"a refinement of this scope key has been running for {seconds:.0f} seconds: wait until it has ended"
    )
