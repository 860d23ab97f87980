"""Formation: everything the run decided becomes one operation. Messages are settled in it, each exactly once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from langgraph.runtime import Runtime

from mnemic.operations.formation.daily_quota import quota_scope_key
from mnemic.operations.formation.drafts import accounted, crowded_out
from mnemic.operations.formation.selection import further_sources, related_to_living, repeat, within_cap
from mnemic.operations.messages.transcript import brought_by, speakers
from mnemic.operations.run.graph import FormationNode
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider, Resources
from mnemic.policy.text.search_text import pieces, search_text
from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.formation import Closing, Repeat, Twin
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.records import IndexedText, Message, NewMemory, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import inbox, leases, memories, scopes
from mnemic.storage.transaction import ScopedTransaction


def save(provide: Provider) -> FormationNode:
    """One embedding batch for what has no vector yet, then one transaction: all of it, or nothing."""

    async def save(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        settings = resources.settings.overridden(state["overrides"])
        batch, repeats = state["batch"], state["repeats"]
        drafted = [*state["facts"], *state["reflections"]]
        new, closing = within_cap(drafted, state["closing"], state["max_writes"])
        accounted_for = accounted(batch, crowded_out(state["account"], drafted, new))
        new = related_to_living(new, closing)
        kept = _kept(batch, new, further_sources(repeats, new, batch), settings)
        forgotten = accounted_for - {message.id for message in kept}
        vectors, texts = await _embed(resources, new, state["vectors"], _texts(kept))
        others = brought_by(batch)
        meta = {"brought_by": others} if others else {}

        async def act(scoped: ScopedTransaction) -> FormationState:
            op_id = await scoped.begin_operation("formation", run_id=_run_id(runtime), meta=meta)
            await inbox.settle(scoped, op_id, batch, read_seq=state["read_seq"])
            stored = await _store(scoped, new, vectors, closing, resources.embedder.name, _run_id(runtime))
            made = [memory for memory in new if memory.id in stored.ids]
            await memories.add_sources(scoped, further_sources([*repeats, *stored.repeats], made, batch))
            if state["max_writes"] is not None:
                await _count_turn(scoped, quota_scope_key(batch, identity), len(stored.ids), settings)
            if texts:
                await inbox.index_messages(scoped, resources.embedder.name, texts)
            if forgotten:
                await inbox.forget_later(scoped, forgotten, timedelta(days=settings.forget_after_days))
            await inbox.forget_due(scoped)
            touched = {memory.scope_key for memory in made}
            await scopes.touch(scoped, sorted(touched))
            due = await _due(scoped, settings)
            await leases.finish(scoped, state["lease"])
            return {
                "stored": dict(Counter(memory.kind for memory in made)),
                "superseded": stored.closed,
                "unaccounted": len(batch) - len(accounted_for),
                "due": due,
            }

        keys = [scope_key("user", user) for user in speakers(batch)]
        return await resources.database.write(identity, act, also=keys)

    return save


def _run_id(runtime: Runtime[Identity]) -> str | None:
    info = runtime.execution_info
    return info.run_id if info else None


def _kept(
    batch: Sequence[Message], new: Sequence[NewMemory], further: Sequence[tuple[UUID, UUID]], settings: Settings
) -> list[Message]:
    if settings.kept_messages == "none":
        return []
    if settings.kept_messages == "all":
        return list(batch)
    sources = {source for memory in new for source in memory.source_message_ids} | {message for _, message in further}
    return [message for message in batch if message.id in sources]


def _texts(kept: Sequence[Message]) -> list[IndexedText]:
    """Each piece of a long message stands alone: dated, and with the speaker's name."""
    return [
        IndexedText(
            item_id=message.id,
            piece=number,
            text=search_text(message.said_at, message.author, piece),
        )
        for message in kept
        for number, piece in enumerate(pieces(message.content))
    ]


async def _embed(
    resources: Resources, new: Sequence[NewMemory], known: Mapping[UUID, Sequence[float]], texts: Sequence[IndexedText]
) -> tuple[dict[UUID, Sequence[float]], list[IndexedText]]:
    missing = [memory for memory in new if memory.id not in known]
    wanted = [memory.search_text for memory in missing] + [text.text for text in texts]
    made = await resources.embedder.embed(wanted) if wanted else []
    vectors = {**known, **{memory.id: vector for memory, vector in zip(missing, made, strict=False)}}
    indexed = [
        IndexedText(item_id=text.item_id, piece=text.piece, text=text.text, vector=vector)
        for text, vector in zip(texts, made[len(missing) :], strict=True)
    ]
    return vectors, indexed


class _Stored(NamedTuple):
    """Memories that were stored, how many facts were closed for them, and what repeats a living one word for word."""

    ids: set[UUID]
    closed: int
    repeats: list[Repeat]


async def _store(
    scoped: ScopedTransaction,
    new: Sequence[NewMemory],
    vectors: Mapping[UUID, Sequence[float]],
    closing: Sequence[Closing],
    model: str,
    run_id: str | None,
) -> _Stored:
    stored = await memories.insert(scoped, new, model=model, vectors=vectors, run_id=run_id)
    dropped = [memory for memory in new if memory.id not in stored]
    twins = await memories.twins(scoped, dropped) if dropped else {}
    changes = [change for row in closing if (change := _change(row, stored, twins))]
    if changes:
        await memories.supersede(scoped, changes)
    known = [repeat(memory, twins[memory.id].id, is_stored=True) for memory in dropped if memory.id in twins]
    return _Stored(stored, len(changes), known)


async def _count_turn(scoped: ScopedTransaction, key: str | None, written: int, settings: Settings) -> None:
    """The operation holds the agent's head, so that runs of one user that end at once are counted one by one."""
    if key is None or not written:
        return
    if await scopes.count_turn_writes(scoped, key, written) > settings.writes_per_user_and_day:
        raise ConcurrentChangeError(
            "another run has used up what may be written for this user's turns today; nothing was written, run it again"
        )


def _change(row: Closing, stored: set[UUID], twins: Mapping[UUID, Twin]) -> tuple[Supersession, datetime] | None:
    """A closing as it can be done: where a living twin kept a fact of this run out, the twin stands in for it."""
    old_id, new_id, version = row.old_id, row.new_id, row.version
    if old_twin := twins.get(old_id):
        old_id, version = old_twin.id, old_twin.version
    if new_twin := twins.get(new_id):
        new_id = new_twin.id
    elif new_id not in stored:
        return None
    if old_id == new_id or (old_twin and old_twin.protected):
        return None
    return Supersession(old_id=old_id, old_version=version, new_id=new_id), row.until


async def _due(scoped: ScopedTransaction, settings: Settings) -> list[str]:
    """Scope keys with enough unabsorbed reflections for a consolidation."""
    waiting = await memories.unabsorbed_counts(scoped)
    overrides = await scopes.scope_settings(scoped)
    due = []
    for key, count in sorted(waiting.items()):
        own = overrides.get(key)
        threshold = (own.threshold if own else None) or settings.threshold(split_scope_key(key)[0])
        if count >= threshold and (own is None or own.is_active):
            due.append(key)
    return due
