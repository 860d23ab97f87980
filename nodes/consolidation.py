"""The nodes of the consolidation graph, for one scope key: a snapshot of what waits, the new text, and its storing."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from langgraph.runtime import Runtime

from mnemic.memory.consolidation.checks import NOTHING_HOLDS, judged, typed_sentences
from mnemic.memory.runtime.identity import identity_of, require_own_scope
from mnemic.memory.runtime.leases import holder_of, release_lease_on_error, release_messages
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.usage import track_usage
from mnemic.memory.text.shape import clean_text
from mnemic.models.prices import spent_on
from mnemic.models.structured import run_step
from mnemic.prompts.write_consolidation import WRITE_CONSOLIDATION, WriteConsolidationInput
from mnemic.state.attribution import is_shared
from mnemic.state.checking import validate
from mnemic.state.errors import ConcurrentChangeError, InvalidInputError
from mnemic.state.graphs import ConsolidationInput, ConsolidationState, Lease, StepUsage
from mnemic.state.identity import Identity, display_name, split_scope_key
from mnemic.state.records import Memory, ScopeSettings, StaleMemory
from mnemic.storage import leases, memories, scopes
from mnemic.storage.transaction import ScopedTransaction


async def collect(state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]) -> ConsolidationState:
    """Reads the living consolidation, the unabsorbed reflections and what no longer holds of what both rest on.

    What is protected stays as it is.
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
            identity, lambda scoped: _take_up(scoped, lease, resources, forced=forced)
        )
    nothing: ConsolidationState = {"absorbed": 0, "kept_share": 1.0, "problem": None, "reflections": [], "outdated": []}
    return {"scope_key": key, **nothing, **found}


async def _take_up(
    scoped: ScopedTransaction, lease: Lease, resources: Resources, *, forced: bool
) -> ConsolidationState:
    settings = resources.settings
    if await _due(scoped, lease.scope_key, resources, forced=forced) is None:
        return {"outcome": "not_due"}
    failed = await leases.claim(scoped, lease, settings, forced=forced)
    if failed is None:
        return {"outcome": "busy" if await leases.waits_for(scoped, lease) == "leased" else "backoff"}
    # read again under the lease: who held it until now has changed what was read before
    due = await _due(scoped, lease.scope_key, resources, forced=forced)
    if due is None:
        await leases.finish(scoped, lease)
        return {"outcome": "not_due"}
    most = max(1, settings.consolidation_reflections >> failed)
    taken = due["reflections"][:most]
    return {**due, "lease": lease, "reflections": taken, "outdated": _told(due["outdated"], taken)}


async def _due(scoped: ScopedTransaction, key: str, resources: Resources, *, forced: bool) -> ConsolidationState | None:
    """What waits in the scope key; None where that is too little, or may not be touched.

    What no longer holds must not stay in context until enough has come together.
    """
    part = await memories.as_drafted(scoped, await memories.standing(scoped))
    own = (await scopes.scope_settings(scoped)).get(key) or ScopeSettings(scope_key=key)
    standing = next((scope for scope in part.scopes if scope.scope_key == key), None)
    if standing is None or not own.is_active or (standing.consolidation and standing.consolidation.protected):
        return None
    settings, (scope, owner) = resources.settings.overridden(part.overrides), split_scope_key(key)
    outdated = await memories.outdated(scoped, [key], resources.categories.personal)
    parts = {row.part_id for row in outdated}
    # what no longer holds goes first, should there be more than one run takes
    reflections = sorted(
        (memory for memory in standing.reflections if not memory.protected), key=lambda memory: memory.id not in parts
    )
    threshold = 1 if forced else own.threshold or settings.of_scope(scope, "threshold")
    if len(reflections) < threshold and not outdated:
        return None
    return {
        "owner": own.name or display_name(owner),
        "persona": settings.persona or "" if scope == "agent" else "",
        "current": standing.consolidation,
        "reflections": reflections,
        "outdated": outdated,
        "word_limit": own.word_limit or settings.of_scope(scope, "word_limit"),
        "guidance": own.consolidation_guidance or "",
    }


def _told(outdated: Sequence[StaleMemory], taken: Sequence[Memory]) -> list[StaleMemory]:
    """What a run is told of: not of reflections that it leaves waiting."""
    ids = {memory.id for memory in taken}
    return [row for row in outdated if not row.is_waiting or row.part_id in ids]


async def write_consolidation(
    state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]
) -> ConsolidationState:
    """The new text, in at most two calls: what is too long, loses details or says what has ended is sent back once.

    A text over the limit, empty, degenerate, with a sentence that no longer holds or without most of its sources is
    refused after the second. Then nothing changes: the reflections stay in context, and are tried again after a wait.
    """
    identity, current = identity_of(runtime), state["current"]
    zone = resources.zone_of(identity)
    today = resources.today(zone)
    step_input = WriteConsolidationInput(
        scope=split_scope_key(state["scope_key"])[0],
        owner=state["owner"],
        current=current.content if current else "",
        reflections=sorted(state["reflections"], key=lambda memory: (memory.valid_from, memory.id)),
        word_limit=state["word_limit"],
        guidance=state["guidance"],
        today=today,
        written=min(current.updated_at.astimezone(zone).date(), today) if current else None,
        outdated=state["outdated"],
        persona=state["persona"],
    )
    usable: list[tuple[float, str]] = []
    spent: list[StepUsage] = []
    for _ in range(2):
        writing = run_step(WRITE_CONSOLIDATION, step_input, resources.models)
        answer, used = await track_usage(resources, identity, writing)
        spent += spent_on(used, resources.settings.model_prices)
        draft = clean_text(answer.text)
        verdict = judged(draft, step_input, resources.settings.consolidation_min_kept_share)
        usable += [] if verdict.why else [(verdict.kept.share, draft)]
        if not verdict.to_mend:
            break
        step_input = step_input._replace(draft=draft, problems=verdict.to_mend)
    if not usable:
        await release_messages(resources, identity, state["lease"], failure="unusable")
        return {
            "outcome": "refused",
            "problem": verdict.why,
            "absorbed": 0,
            "kept_share": 1.0,
            "text": "",
            "spent": spent,
        }
    share, best = max(usable, key=lambda kept: kept[0])
    return {"text": best, "kept_share": round(share, 3), "spent": spent}


async def save_consolidation(
    state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]
) -> ConsolidationState:
    """The new text replaces the old one and takes the reflections in, if all is still as read: in one operation.

    Those that rest on what no longer holds are closed, also if they were taken in before: a search would bring them
    back.
    Whoever came second finds another version, writes nothing and leaves the rest for the next run.
    """
    identity, lease, reflections = identity_of(runtime), state["lease"], state["reflections"]
    outdated, personal = {row.part_id for row in state["outdated"]}, resources.categories.personal

    async def act(scoped: ScopedTransaction) -> None:
        await scoped.begin_operation("consolidation", meta={"kept_share": state["kept_share"]})
        if _told(await memories.outdated(scoped, [lease.scope_key], personal), reflections) != state["outdated"]:
            raise ConcurrentChangeError
        consolidation_id = await _write(scoped, state, await _shared_text(scoped, state))
        await memories.absorb(scoped, consolidation_id, [row.id for row in reflections if row.id not in outdated])
        await memories.close_parts(scoped, consolidation_id, outdated)
        await leases.finish(scoped, lease)

    try:
        await resources.database.write(identity, act)
    except ConcurrentChangeError:
        await release_messages(resources, identity, lease, failure="interrupted")
        return {"outcome": "stale", "absorbed": 0}
    resources.events.note_count(identity, ("consolidation", "merge"), len(reflections))
    return {"outcome": "saved", "absorbed": len(reflections)}


async def _shared_text(scoped: ScopedTransaction, state: ConsolidationState) -> str | None:
    """Return what the readers of a shared scope key get instead of the model's text, or None if one person reads it."""
    key, current = state["scope_key"], state["current"]
    if not is_shared(key):
        return None
    ended = {row.part_id for row in state["outdated"]}
    taken = {memory.id for memory in state["reflections"]} - ended
    parts = await memories.parts(scoped, current.id) if current else []
    for scope in (await memories.standing(scoped)).scopes:
        parts += [memory for memory in scope.reflections if memory.id in taken]
    kept = [memory for memory in parts if memory.id not in ended]
    return typed_sentences(kept, state["word_limit"]) or NOTHING_HOLDS


async def _write(scoped: ScopedTransaction, state: ConsolidationState, shared: str | None) -> UUID:
    text, draft = (state["text"], None) if shared is None else (shared, state["text"])
    if current := state["current"]:
        await memories.rewrite(scoped, current, text, draft=draft)
        return current.id
    key, since = state["scope_key"], min(memory.valid_from for memory in state["reflections"])
    category = "profile" if split_scope_key(key)[0] == "user" else "knowledge"
    new = new_memory("consolidation", category, key, text, since, state["owner"])
    first = replace(new, provenance="consolidated", draft=draft)
    if not await memories.insert(scoped, [first], model="", vectors={}, run_id=None):
        raise ConcurrentChangeError
    return first.id
