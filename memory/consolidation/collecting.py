"""The snapshot of a consolidation: the texts of a scope key that is due, read under a lease."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from uuid import UUID

from mnemic.memory.runtime.graph import release_lease_on_error
from mnemic.memory.runtime.identity import require_own_scope, require_scope_key
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import validate
from mnemic.state.consolidation import ConsolidationSnapshot
from mnemic.state.graphs import ConsolidationInput, ConsolidationState, Lease
from mnemic.state.identity import Identity, display_name, split_scope_key
from mnemic.state.records import Memory, ScopeSettings, StaleMemory
from mnemic.storage import leases, memories, scopes
from mnemic.storage.transaction import ScopedTransaction


class _Work(NamedTuple):
    """The work on the scope key of a lease."""

    resources: Resources
    lease: Lease
    is_forced: bool

    @property
    def scope_key(self) -> str:
        """The scope key to consolidate."""
        return self.lease.scope_key


async def collect(
    resources: Resources, identity: Identity, request: ConsolidationInput, holder: UUID
) -> ConsolidationState:
    """Read the texts of a scope key under a lease, if its consolidation is due.

    Args:
        resources: database and models.
        identity: of the run.
        request: input of the graph.
        holder: id of the run, which holds the lease.

    Raises:
        InvalidInputError: if the scope key does not belong to the identity.
        RefusedIdentityError: if others share it, and a server's client forces the run.
    """
    request = validate(ConsolidationInput, request)
    key, is_forced = request.get("scope_key", ""), request.get("force", False)
    require_scope_key(identity, key)
    if is_forced:
        require_own_scope(identity, key)
    lease = Lease(work="consolidation", scope_key=key, holder=holder)
    async with release_lease_on_error(resources, identity, lease):
        take = partial(_take, work=_Work(resources, lease, is_forced))
        taken = await resources.database.write(identity, take)
    unset: ConsolidationState = {"absorbed": 0, "kept_share": 1.0, "problem": None}
    return {"scope_key": key, **unset, **taken}


async def _take(tx: ScopedTransaction, work: _Work) -> ConsolidationState:
    """Claim the lease if a consolidation is due, and return the snapshot, or the reason without one."""
    settings, lease = work.resources.settings, work.lease
    if await _read_due(tx, work) is None:
        return {"outcome": "not_due"}
    failures = await leases.claim(tx, lease, settings, forced=work.is_forced)
    if failures is None:
        is_leased = await leases.blocked_by(tx, lease) == "leased"
        return {"outcome": "busy" if is_leased else "backoff"}
    # read again under the lease: its last holder has changed the texts
    due = await _read_due(tx, work)
    if due is None:
        await leases.finish(tx, lease)
        return {"outcome": "not_due"}
    limit = max(1, settings.consolidation_reflections >> failures)
    reflections = due.reflections[:limit]
    stale = stale_of_run(due.stale, reflections)
    if not reflections and not stale:
        await leases.finish(tx, lease)
        return {"outcome": "not_due"}
    return {"lease": lease, "snapshot": replace(due, reflections=reflections, stale=stale)}


async def _read_due(tx: ScopedTransaction, work: _Work) -> ConsolidationSnapshot | None:
    """Return the texts of the scope key, or None if too few reflections wait, or if the text may not be changed.

    Protected memories stay as they are. Outdated statements are due at once: they must not stay in context until
    enough reflections wait.
    """
    key, resources = work.scope_key, work.resources
    context = await memories.read_context(tx, as_drafted=True)
    scope_settings = (await scopes.scope_settings(tx)).get(key) or ScopeSettings(scope_key=key)
    texts = next((scope for scope in context.scopes if scope.scope_key == key), None)
    if texts is None or not scope_settings.is_active:
        return None
    if texts.consolidation and texts.consolidation.protected:
        return None
    stale = await memories.find_stale(tx, [key], resources.categories.personal)
    reflections = _stale_first(texts.reflections, stale)
    settings, (scope, owner) = resources.settings.overridden(context.overrides), split_scope_key(key)
    threshold = scope_settings.threshold or settings.of_scope(scope, "threshold")
    if work.is_forced:
        threshold = 1
    if len(reflections) < threshold and not stale:
        return None
    persona = ""
    if scope == "agent":
        persona = settings.persona or ""
    return ConsolidationSnapshot(
        owner=scope_settings.name or display_name(owner),
        persona=persona,
        current=texts.consolidation,
        reflections=reflections,
        stale=stale,
        word_limit=scope_settings.word_limit or settings.of_scope(scope, "word_limit"),
        guidance=scope_settings.consolidation_guidance or "",
    )


def _stale_first(reflections: Sequence[Memory], stale: Sequence[StaleMemory]) -> list[Memory]:
    """Return the reflections without protected ones, stale ones first: a run may be too small for all of them."""
    parts = {row.part_id for row in stale}
    first: list[Memory] = []
    others: list[Memory] = []
    for memory in reflections:
        if memory.protected:
            continue
        if memory.id in parts:
            first.append(memory)
        else:
            others.append(memory)
    return [*first, *others]


def stale_of_run(stale: Sequence[StaleMemory], reflections: Sequence[Memory]) -> list[StaleMemory]:
    """Return the stale statements of a run, without those of reflections that it does not take in."""
    ids = {memory.id for memory in reflections}
    return [row for row in stale if not row.is_waiting or row.part_id in ids]
