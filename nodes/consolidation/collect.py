"""Consolidation: a snapshot of what waits in one scope key."""

from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from mnemic.operations.run.graph import ConsolidationNode, holder_of, release_lease_on_error
from mnemic.operations.run.identity import identity_of, require_own_scope
from mnemic.operations.run.resources import Provider
from mnemic.policy.text.names import display_name
from mnemic.state.checking import validate
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import ConsolidationInput, ConsolidationState, Lease, Outcome
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Memory, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import leases, memories, scopes
from mnemic.storage.transaction import ScopedTransaction


def collect(provide: Provider) -> ConsolidationNode:
    """Reads the living consolidation and the unabsorbed reflections, but what is protected stays as it is.

    A run that is due takes a lease on the scope key in the same transaction.
    """

    async def collect(state: ConsolidationState, runtime: Runtime[Identity]) -> ConsolidationState:
        resources = await provide()
        identity = identity_of(runtime)
        request = validate(ConsolidationInput, state)
        key, forced = request.get("scope_key", ""), request.get("force", False)
        if key not in identity.scope_keys:
            raise InvalidInputError("the scope key to consolidate is none of this identity's")
        if forced:
            require_own_scope(identity, key)
        lease = Lease(work="consolidation", scope_key=key, holder=holder_of(runtime))

        async def act(scoped: ScopedTransaction) -> _Due | Outcome:
            return await _take_up(scoped, lease, resources.settings, forced=forced)

        async with release_lease_on_error(resources, identity, lease):
            due = await resources.database.write(identity, act)
        if not isinstance(due, _Due):
            nothing: ConsolidationState = {"absorbed": 0, "kept_share": 1.0, "problem": None, "reflections": []}
            return {**nothing, "scope_key": key, "outcome": due}
        scope, owner = split_scope_key(key)
        return {
            "lease": lease,
            "problem": None,
            "owner": due.own.name or display_name(owner),
            "current": due.current,
            "reflections": [*due.reflections],
            "word_limit": due.own.word_limit or resources.settings.overridden(due.overrides).word_limit(scope),
            "guidance": due.own.consolidation_guidance or "",
        }

    return collect


class _Due(NamedTuple):
    """What a consolidation works on."""

    current: Memory | None
    reflections: tuple[Memory, ...]
    own: ScopeSettings
    overrides: dict[str, Any]


async def _take_up(scoped: ScopedTransaction, lease: Lease, settings: Settings, *, forced: bool) -> _Due | Outcome:
    if await _due(scoped, lease.scope_key, settings, forced=forced) is None:
        return "not_due"
    failed = await leases.claim(scoped, lease, settings, forced=forced)
    if failed is None:
        return "busy" if await leases.waits_for(scoped, lease) == "leased" else "backoff"
    # read again under the lease: who held it until now has changed what was read before
    due = await _due(scoped, lease.scope_key, settings, forced=forced)
    if due is None:
        await leases.finish(scoped, lease)
        return "not_due"
    return due._replace(reflections=due.reflections[: max(1, settings.consolidation_reflections >> failed)])


async def _due(scoped: ScopedTransaction, key: str, settings: Settings, *, forced: bool) -> _Due | None:
    """What waits in the scope key; None where that is too little, or may not be touched."""
    part = await memories.standing(scoped)
    own = (await scopes.scope_settings(scoped)).get(key) or ScopeSettings(scope_key=key)
    standing = next((scope for scope in part.scopes if scope.scope_key == key), None)
    if standing is None or not own.is_active or (standing.consolidation and standing.consolidation.protected):
        return None
    reflections = tuple(memory for memory in standing.reflections if not memory.protected)
    threshold = own.threshold or settings.overridden(part.overrides).threshold(split_scope_key(key)[0])
    if len(reflections) < (1 if forced else threshold):
        return None
    return _Due(current=standing.consolidation, reflections=reflections, own=own, overrides=part.overrides)
