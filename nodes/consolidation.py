"""The nodes of the consolidation graph, for one scope key: a snapshot of what waits, the new text, and its storing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal
from uuid import UUID

from langgraph.runtime import Runtime

from mnemic.models.structured import run_step
from mnemic.operations.run.identity import identity_of, require_own_scope
from mnemic.operations.run.leases import give_back, holder_of, release_lease_on_error
from mnemic.operations.run.resources import Resources
from mnemic.operations.usage import metered
from mnemic.policy.text.kept import kept_share, missing_details
from mnemic.policy.text.shape import MAX_TEXT_BYTES, clean_text, new_memory
from mnemic.policy.text.writing import is_degenerate
from mnemic.prompts.write_consolidation import (
    EMPTY_OR_REPEATING,
    LACKING,
    MOST_DETAILS,
    TOO_LONG,
    WRITE_CONSOLIDATION,
    WriteConsolidationInput,
)
from mnemic.state.checking import validate
from mnemic.state.errors import ConcurrentChangeError, InvalidInputError
from mnemic.state.graphs import ConsolidationInput, ConsolidationState, Lease
from mnemic.state.identity import Identity, display_name, split_scope_key
from mnemic.state.records import ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import leases, memories, scopes
from mnemic.storage.transaction import ScopedTransaction

#: Newer wins, so an outdated detail may go; a draft that keeps less than this is sent back.
WANTED_SHARE = 0.9


async def collect(state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]) -> ConsolidationState:
    """Reads the living consolidation and the unabsorbed reflections, but what is protected stays as it is.

    A run that is due takes a lease on the scope key in the same transaction.
    """
    identity = identity_of(runtime)
    request = validate(ConsolidationInput, state)
    key, forced = request.get("scope_key", ""), request.get("force", False)
    if key not in identity.scope_keys:
        raise InvalidInputError("the scope key to consolidate is none of this identity's")
    if forced:
        require_own_scope(identity, key)
    lease = Lease(work="consolidation", scope_key=key, holder=holder_of(runtime))
    async with release_lease_on_error(resources, identity, lease):
        found = await resources.database.write(
            identity, lambda scoped: _take_up(scoped, lease, resources.settings, forced=forced)
        )
    return {"scope_key": key, "absorbed": 0, "kept_share": 1.0, "problem": None, "reflections": [], **found}


async def _take_up(scoped: ScopedTransaction, lease: Lease, settings: Settings, *, forced: bool) -> ConsolidationState:
    if await _due(scoped, lease.scope_key, settings, forced=forced) is None:
        return {"outcome": "not_due"}
    failed = await leases.claim(scoped, lease, settings, forced=forced)
    if failed is None:
        return {"outcome": "busy" if await leases.waits_for(scoped, lease) == "leased" else "backoff"}
    # read again under the lease: who held it until now has changed what was read before
    due = await _due(scoped, lease.scope_key, settings, forced=forced)
    if due is None:
        await leases.finish(scoped, lease)
        return {"outcome": "not_due"}
    most = max(1, settings.consolidation_reflections >> failed)
    return {**due, "lease": lease, "reflections": due["reflections"][:most]}


async def _due(scoped: ScopedTransaction, key: str, settings: Settings, *, forced: bool) -> ConsolidationState | None:
    """What waits in the scope key; None where that is too little, or may not be touched."""
    part = await memories.standing(scoped)
    own = (await scopes.scope_settings(scoped)).get(key) or ScopeSettings(scope_key=key)
    standing = next((scope for scope in part.scopes if scope.scope_key == key), None)
    if standing is None or not own.is_active or (standing.consolidation and standing.consolidation.protected):
        return None
    settings, (scope, owner) = settings.overridden(part.overrides), split_scope_key(key)
    reflections = [memory for memory in standing.reflections if not memory.protected]
    if len(reflections) < (1 if forced else own.threshold or settings.of_scope(scope, "threshold")):
        return None
    return {
        "owner": own.name or display_name(owner),
        "current": standing.consolidation,
        "reflections": reflections,
        "word_limit": own.word_limit or settings.of_scope(scope, "word_limit"),
        "guidance": own.consolidation_guidance or "",
    }


async def write_consolidation(
    state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]
) -> ConsolidationState:
    """The new text, in at most two calls: what is too long or loses details is sent back once.

    A text over the limit, empty or degenerate after the second is refused; nothing changes.
    """
    identity = identity_of(runtime)
    word_limit, reflections = state["word_limit"], state["reflections"]
    current = state["current"].content if state["current"] else ""
    sources = [*([current] if current else []), *(memory.content for memory in reflections)]
    step_input = WriteConsolidationInput(
        scope=split_scope_key(state["scope_key"])[0],
        owner=state["owner"],
        current=current,
        reflections=reflections,
        word_limit=word_limit,
        guidance=state["guidance"],
    )
    usable: list[str] = []
    for _ in range(2):
        writing = run_step(WRITE_CONSOLIDATION, step_input, resources.models)
        draft = clean_text((await metered(resources, identity, writing)).output.text)
        why, to_mend = _judged(draft, sources, word_limit)
        usable += [] if why else [draft]
        if to_mend is None:
            break
        step_input = step_input._replace(draft=draft, problem=to_mend)
    if not usable:
        await give_back(resources, identity, state["lease"], failure="unusable")
        return {"outcome": "refused", "problem": why, "absorbed": 0, "kept_share": 1.0, "text": ""}
    best = max(usable, key=lambda draft: kept_share(sources, draft))
    return {"text": best, "kept_share": round(kept_share(sources, best), 3)}


def _judged(
    draft: str, sources: Sequence[str], word_limit: int
) -> tuple[Literal["too_long", "empty", "degenerate"] | None, str | None]:
    """Why a draft cannot be stored, if it cannot, and what the model should mend; None for a good draft."""
    words = len(draft.split())
    if words > word_limit or len(draft.encode()) > MAX_TEXT_BYTES:
        return "too_long", TOO_LONG.format(words=words, word_limit=word_limit)
    if not draft or is_degenerate(draft):
        return "degenerate" if draft else "empty", EMPTY_OR_REPEATING
    if kept_share(sources, draft) >= WANTED_SHARE:
        return None, None
    return None, LACKING.format(details=", ".join(missing_details(sources, draft)[:MOST_DETAILS]))


async def save_consolidation(
    state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]
) -> ConsolidationState:
    """The new text replaces the old one and takes the reflections in, if both are still as read: in one operation.

    Whoever came second finds another version, writes nothing and leaves the rest for the next run.
    """
    identity, lease, reflections = identity_of(runtime), state["lease"], state["reflections"]

    async def act(scoped: ScopedTransaction) -> None:
        await scoped.begin_operation("consolidation", meta={"kept_share": state["kept_share"]})
        consolidation_id = await _write(scoped, state)
        await memories.absorb(scoped, consolidation_id, [memory.id for memory in reflections])
        await leases.finish(scoped, lease)

    try:
        await resources.database.write(identity, act)
    except ConcurrentChangeError:
        await give_back(resources, identity, lease, failure="interrupted")
        return {"outcome": "stale", "absorbed": 0}
    return {"outcome": "saved", "absorbed": len(reflections)}


async def _write(scoped: ScopedTransaction, state: ConsolidationState) -> UUID:
    if current := state["current"]:
        await memories.rewrite(scoped, current, state["text"])
        return current.id
    key, since = state["scope_key"], min(memory.valid_from for memory in state["reflections"])
    category = "profile" if split_scope_key(key)[0] == "user" else "knowledge"
    new = new_memory("consolidation", category, key, state["text"], since, state["owner"])
    first = replace(new, provenance="consolidated")
    if not await memories.insert(scoped, [first], model="", vectors={}, run_id=None):
        raise ConcurrentChangeError
    return first.id
