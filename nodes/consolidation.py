"""The nodes of the consolidation graph, for one scope key: a snapshot of what waits, the new text, and its storing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple
from uuid import UUID

from langgraph.runtime import Runtime

from mnemic.models.structured import run_step
from mnemic.operations.closing import still_outdated
from mnemic.operations.run.identity import identity_of, require_own_scope
from mnemic.operations.run.leases import give_back, holder_of, release_lease_on_error
from mnemic.operations.run.resources import Resources
from mnemic.operations.usage import metered
from mnemic.policy.text.retention import Retention, retention, wanted_share
from mnemic.policy.text.shape import MAX_TEXT_BYTES, clean_text, new_memory
from mnemic.policy.text.words import sentences
from mnemic.policy.text.writing import is_degenerate
from mnemic.prompts.write_consolidation import (
    EMPTY_OR_REPEATING,
    LACKING,
    MOST_DETAILS,
    STILL_SAID,
    TOO_LONG,
    WRITE_CONSOLIDATION,
    WriteConsolidationInput,
)
from mnemic.state.checking import validate
from mnemic.state.errors import ConcurrentChangeError, InvalidInputError
from mnemic.state.graphs import ConsolidationInput, ConsolidationState, Lease
from mnemic.state.identity import Identity, display_name, split_scope_key
from mnemic.state.records import Memory, Outdated, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import leases, memories, scopes
from mnemic.storage.transaction import ScopedTransaction

_Problem = Literal["too_long", "empty", "degenerate", "outdated"]


class _Verdict(NamedTuple):
    """What a draft is worth."""

    #: Why it cannot be stored, if it cannot.
    why: _Problem | None
    kept: Retention
    #: All that the model should mend; nothing for a good draft.
    to_mend: list[str]


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
            identity, lambda scoped: _take_up(scoped, lease, resources.settings, forced=forced)
        )
    nothing: ConsolidationState = {"absorbed": 0, "kept_share": 1.0, "problem": None, "reflections": [], "outdated": []}
    return {"scope_key": key, **nothing, **found}


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
    taken = due["reflections"][:most]
    return {**due, "lease": lease, "reflections": taken, "outdated": _told(due["outdated"], taken)}


async def _due(scoped: ScopedTransaction, key: str, settings: Settings, *, forced: bool) -> ConsolidationState | None:
    """What waits in the scope key; None where that is too little, or may not be touched.

    What no longer holds must not stay in context until enough has come together.
    """
    part = await memories.standing(scoped)
    own = (await scopes.scope_settings(scoped)).get(key) or ScopeSettings(scope_key=key)
    standing = next((scope for scope in part.scopes if scope.scope_key == key), None)
    if standing is None or not own.is_active or (standing.consolidation and standing.consolidation.protected):
        return None
    settings, (scope, owner) = settings.overridden(part.overrides), split_scope_key(key)
    outdated = await still_outdated(scoped, [key])
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


def _told(outdated: Sequence[Outdated], taken: Sequence[Memory]) -> list[Outdated]:
    """What a run is told of: not of reflections that it leaves waiting."""
    ids = {memory.id for memory in taken}
    return [row for row in outdated if not row.is_waiting or row.part_id in ids]


async def write_consolidation(
    state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]
) -> ConsolidationState:
    """The new text, in at most two calls: what is too long, loses details or says what has ended is sent back once.

    A text over the limit, empty, degenerate or with a sentence that no longer holds is refused after the second;
    nothing changes.
    """
    identity, current = identity_of(runtime), state["current"]
    step_input = WriteConsolidationInput(
        scope=split_scope_key(state["scope_key"])[0],
        owner=state["owner"],
        current=current.content if current else "",
        reflections=sorted(state["reflections"], key=lambda memory: (memory.valid_from, memory.id)),
        word_limit=state["word_limit"],
        guidance=state["guidance"],
        today=resources.today(),
        written=min(current.updated_at.date(), resources.today()) if current else None,
        outdated=state["outdated"],
        persona=state["persona"],
    )
    usable: list[tuple[float, str]] = []
    for _ in range(2):
        writing = run_step(WRITE_CONSOLIDATION, step_input, resources.models)
        draft = clean_text((await metered(resources, identity, writing)).output.text)
        verdict = _judged(draft, step_input)
        usable += [] if verdict.why else [(verdict.kept.share, draft)]
        if not verdict.to_mend:
            break
        step_input = step_input._replace(draft=draft, problems=verdict.to_mend)
    if not usable:
        await give_back(resources, identity, state["lease"], failure="unusable")
        return {"outcome": "refused", "problem": verdict.why, "absorbed": 0, "kept_share": 1.0, "text": ""}
    share, best = max(usable, key=lambda kept: kept[0])
    return {"text": best, "kept_share": round(share, 3)}


def _judged(draft: str, given: WriteConsolidationInput) -> _Verdict:
    """Everything that is wrong with a draft, so that one repair can mend all of it."""
    ended = [text for row in given.outdated for text in (row.content, row.part)]
    sources = [given.current, *(memory.content for memory in given.reflections if memory.content not in ended)]
    wanted, kept = wanted_share(sources, given.word_limit), retention(sources, draft, ended)
    words, still = len(draft.split()), _still_said(draft, given.outdated)
    why: list[_Problem] = []
    to_mend: list[str] = []
    if words > given.word_limit or len(draft.encode()) > MAX_TEXT_BYTES:
        why.append("too_long")
        to_mend.append(TOO_LONG.format(words=words, word_limit=given.word_limit))
    if not draft or is_degenerate(draft):
        why.append("degenerate" if draft else "empty")
        to_mend.append(EMPTY_OR_REPEATING)
    if still:
        why.append("outdated")
        to_mend.append(STILL_SAID.format(texts=" ".join(still)))
    if lacking := kept.lacking(wanted):
        to_mend.append(LACKING.format(details=", ".join(lacking[:MOST_DETAILS])))
    return _Verdict(why[0] if why else None, kept, to_mend)


def _still_said(draft: str, outdated: Sequence[Outdated]) -> list[str]:
    said = {sentence.casefold() for line in draft.splitlines() for sentence in sentences(line.lstrip("-* "))}
    return list(dict.fromkeys(row.content for row in outdated if row.content.casefold() in said))


async def save_consolidation(
    state: ConsolidationState, resources: Resources, runtime: Runtime[Identity]
) -> ConsolidationState:
    """The new text replaces the old one and takes the reflections in, if all is still as read: in one operation.

    Those that rest on what no longer holds are closed, also if they were taken in before: a search would bring them
    back.
    Whoever came second finds another version, writes nothing and leaves the rest for the next run.
    """
    identity, lease, reflections = identity_of(runtime), state["lease"], state["reflections"]
    outdated = {row.part_id for row in state["outdated"]}

    async def act(scoped: ScopedTransaction) -> None:
        await scoped.begin_operation("consolidation", meta={"kept_share": state["kept_share"]})
        if _told(await still_outdated(scoped, [lease.scope_key]), reflections) != state["outdated"]:
            raise ConcurrentChangeError
        consolidation_id = await _write(scoped, state)
        await memories.absorb(scoped, consolidation_id, [row.id for row in reflections if row.id not in outdated])
        await memories.close_parts(scoped, consolidation_id, outdated)
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
