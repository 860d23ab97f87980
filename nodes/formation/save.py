"""Formation: everything the run decided becomes one operation, and what became due by it is consolidated."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import timedelta
from typing import cast
from uuid import UUID

from langgraph.runtime import Runtime

from mnemic.memory.formation.decisions import repeats_of
from mnemic.memory.formation.selection import (
    accounted,
    crowded_out,
    further_sources,
    quota_scope_key,
    related_to_living,
    with_former,
    within_cap,
)
from mnemic.memory.runtime.embedding import embed_later, embed_to_store, with_agents_embedder
from mnemic.memory.runtime.graph import AnyGraph
from mnemic.memory.runtime.identity import acting_for, identity_of
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.scoping import with_shared_wording
from mnemic.memory.runtime.transcript import speakers, submitters
from mnemic.memory.text.shape import pieces, search_text
from mnemic.models.embedders.vectors import Vector
from mnemic.state.errors import ConcurrentChangeError, MnemicError
from mnemic.state.graphs import ConsolidationInput, ConsolidationResult, FormationState, add_counts
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.records import IndexedText, Message, NewMemory, ScopeSettings, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import embeddings, inbox, leases, memories, scopes
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")


async def save(state: FormationState, resources: Resources, runtime: Runtime[Identity]) -> FormationState:
    """One embedding batch for what has no vector yet, then one transaction: all of it, or nothing.

    Vectors that earlier runs could not get are filled afterwards, in the background.
    """
    identity = identity_of(runtime)
    settings = resources.settings.overridden(state["overrides"])
    batch, run = state["batch"], runtime.execution_info
    drafted = [*state["facts"], *state["reflections"]]
    new, closing = within_cap(drafted, state["closing"], state["max_writes"])
    account = crowded_out(state["account"], drafted, new)
    accounted_for = accounted(batch, account)
    new = [with_shared_wording(memory) for memory in new]
    keys = [scope_key("user", user) for user in speakers(batch)]
    if any(row.until is None for row in closing):
        async with resources.database.transaction(identity, also=keys) as scoped:
            new, closing = await _with_renewed(scoped, new, closing)
    new = related_to_living(new, closing)
    kept = _kept(batch, new, further_sources(state["repeats"], new, batch), settings, refused=account.open)
    forgotten = accounted_for - {message.id for message in kept}
    resources = await _with_embedder(state, resources, identity)
    vectors, texts = await _embed(resources, new, state["vectors"], kept)
    run_id, others = run.run_id if run else None, submitters(batch)

    async def act(scoped: ScopedTransaction) -> tuple[FormationState, set[UUID], bool]:
        op_id = await scoped.begin_operation(
            "formation", run_id=run_id, meta={"submitted_by": others} if others else {}
        )
        await inbox.settle(scoped, op_id, batch, read_revision=state["read_revision"])
        stored = await memories.insert(scoped, new, model=resources.embedder.name, vectors=vectors, run_id=run_id)
        superseded = await _supersede(scoped, state, new, closing, stored)
        if state["max_writes"] is not None:
            await _count_turn(scoped, quota_scope_key(batch, identity), len(stored), settings)
        if texts:
            await inbox.index_messages(scoped, resources.embedder.name, texts)
        if forgotten:
            await inbox.schedule_forgetting(scoped, forgotten, timedelta(days=settings.forget_after_days))
        await inbox.forget_due(scoped)
        due = await _due(scoped, settings, resources.categories.personal)
        await leases.finish(scoped, state["lease"])
        kinds: dict[str, int] = dict(Counter(memory.kind for memory in new if memory.id in stored))
        saved: FormationState = {
            "stored": kinds,
            "superseded": superseded,
            "uncovered_messages": len(batch) - len(accounted_for),
            "due": due,
        }
        if over_limit := len(drafted) - len(new):
            saved["refused"] = {"over_limit": over_limit}
        return saved, stored, await embeddings.are_due(scoped)

    update, stored, has_pending_vectors = await resources.database.write(identity, act, also=keys)
    refused = sum(add_counts(state.get("refused", {}), update.get("refused", {})).values())
    resources.events.note_created(identity, "formation", [memory for memory in new if memory.id in stored])
    resources.events.note_count(identity, ("formation", "supersede"), update["superseded"])
    resources.events.note_count(identity, ("formation", "create"), refused, "skipped")
    if has_pending_vectors:
        embed_later(resources, identity, also=keys)
    return update


async def _with_renewed(
    scoped: ScopedTransaction, new: Sequence[NewMemory], closing: Sequence[Supersession]
) -> tuple[list[NewMemory], list[Supersession]]:
    """Return the memories and closings, so that a merged fact that others read keeps the sentence of each part.

    A fact whose sentence does not fit stays apart, and is not closed.
    """
    reworded = {memory.id: memory for memory in new if memory.draft is not None}
    apart: set[UUID] = set()
    for row in closing:
        if row.until is not None or row.new_id not in reworded:
            continue
        old = await memories.find(scoped, row.old_id)
        joined = with_former(reworded[row.new_id], old) if old else None
        if joined is None:
            apart.add(row.old_id)
        else:
            reworded[row.new_id] = joined
    kept = [row for row in closing if row.old_id not in apart]
    return [reworded.get(memory.id, memory) for memory in new], kept


async def _with_embedder(state: FormationState, resources: Resources, identity: Identity) -> Resources:
    """Return the resources with the embedder that made the vectors of the state, or that of the agent."""
    if state["vectors"] and "embedder" in state:
        return resources.with_embedder(state["embedder"])
    return await with_agents_embedder(resources, identity)


async def _supersede(
    scoped: ScopedTransaction,
    state: FormationState,
    new: Sequence[NewMemory],
    closing: Sequence[Supersession],
    stored: set[UUID],
) -> int:
    """Closes what can be closed, of how many: where a living twin kept a memory of this run out, it stands in for it.

    What is said again, by a twin too, rests on who said it now.
    """
    dropped = [memory for memory in new if memory.id not in stored]
    twins = await memories.find_exact_duplicates(scoped, dropped) if dropped else {}
    changes: list[Supersession] = []
    for change in closing:
        twin = twins.get(change.new_id)
        if (twin and twin.id != change.old_id) or change.new_id in stored:
            changes.append(change._replace(new_id=twin.id if twin else change.new_id))
    if changes:
        await memories.supersede(scoped, changes)
    again = [row for memory in dropped if memory.id in twins for row in repeats_of(memory, [twins[memory.id]])]
    made = [memory for memory in new if memory.id in stored]
    await memories.add_sources(scoped, further_sources([*state["repeats"], *again], made, state["batch"]))
    return len(changes)


def _kept(
    batch: Sequence[Message],
    new: Sequence[NewMemory],
    further: Sequence[tuple[UUID, UUID]],
    settings: Settings,
    *,
    refused: Set[UUID],
) -> list[Message]:
    """Return the messages that stay searchable.

    If only sources stay, so do attachments, and the messages of users on which refused drafts rest.
    """
    if settings.kept_messages != "sources":
        return list(batch) if settings.kept_messages == "all" else []
    sources = {source for memory in new for source in memory.source_message_ids} | {message for _, message in further}
    return [
        message
        for message in batch
        if message.id in sources or message.role == "attachment" or (message.id in refused and message.role == "user")
    ]


async def _embed(
    resources: Resources, new: Sequence[NewMemory], known: Mapping[UUID, Vector | None], kept: Sequence[Message]
) -> tuple[dict[UUID, Vector | None], list[IndexedText]]:
    """In one batch; each piece of a long message stands alone: dated, and with the speaker's name."""
    missing = [memory for memory in new if memory.id not in known]
    texts = [
        IndexedText(item_id=message.id, piece=number, text=search_text(message.said_at, message.author, piece))
        for message in kept
        for number, piece in enumerate(pieces(message.content))
    ]
    wanted = [memory.search_text for memory in missing] + [text.text for text in texts]
    made = iter(await embed_to_store(resources, wanted))
    vectors = {**known, **{memory.id: next(made) for memory in missing}}
    return vectors, [text._replace(vector=next(made)) for text in texts]


async def _count_turn(scoped: ScopedTransaction, key: str | None, written: int, settings: Settings) -> None:
    """The operation holds the agent's head, so that runs of one user that end at once are counted one by one."""
    if key is None or not written:
        return
    if await scopes.count_turn_writes(scoped, key, written) > settings.writes_per_user_and_day:
        raise ConcurrentChangeError(
            "another run has used up what may be written for this user's turns today; nothing was written, run it again"
        )


async def _due(scoped: ScopedTransaction, settings: Settings, personal: Set[str]) -> list[str]:
    """Scope keys with enough unabsorbed reflections for a consolidation, or whose texts say what no longer holds."""
    waiting = await memories.count_unabsorbed(scoped)
    outdated = {row.scope_key for row in await memories.find_stale(scoped, scoped.scope_keys, personal)}
    if not waiting and not outdated:
        return []
    overrides = await scopes.scope_settings(scoped)
    due = []
    for key in sorted(waiting.keys() | outdated):
        own = overrides.get(key) or ScopeSettings(scope_key=key)
        threshold = own.threshold or settings.of_scope(split_scope_key(key)[0], "threshold")
        if own.is_active and (key in outdated or waiting[key] >= threshold):
            due.append(key)
    return due


async def consolidate(state: ConsolidationInput, runtime: Runtime[Identity], graph: AnyGraph) -> FormationState:
    """One scope key; the formation is already saved, so whatever fails leaves the reflections waiting."""
    key = state["scope_key"]
    identity = acting_for(identity_of(runtime), key)
    result = again = await _run(graph, key, identity)
    # once more: whoever came while it was busy has left his reflections to this run
    while again["outcome"] == "saved":
        again = await _run(graph, key, identity)
        if again["outcome"] == "saved":
            result = {**again, "absorbed": result["absorbed"] + again["absorbed"]}
    return {"consolidations": [result]}


async def _run(graph: AnyGraph, key: str, identity: Identity) -> ConsolidationResult:
    try:
        return cast(ConsolidationResult, await graph.ainvoke({"scope_key": key}, context=identity))
    except MnemicError as error:
        _LOG.warning("a consolidation failed, its reflections wait: %s", error)
        return {"scope_key": key, "outcome": "failed", "absorbed": 0, "kept_share": 1.0}
