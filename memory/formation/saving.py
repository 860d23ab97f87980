"""Saving of a formation: all memories of a run, and its settled messages, in one operation."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.formation.builder import added_counts, ids_of, most_important, without_dropped
from mnemic.memory.formation.candidates import duplicates_of, speaker_keys
from mnemic.memory.formation.intake import quota_scope_key
from mnemic.memory.runtime.embedding import embed_later, embed_to_store, with_agents_embedder
from mnemic.memory.runtime.identity import session_of
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.scoping import with_shared_wording
from mnemic.memory.runtime.transcript import submitters
from mnemic.memory.text.shape import pieces, search_text
from mnemic.models.embedders.vectors import Vector
from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.formation import Coverage, DuplicateDraft, ExactDuplicate
from mnemic.state.graphs import FormationRun
from mnemic.state.identity import Identity, display_name, scope_key, split_scope_key
from mnemic.state.records import IndexedText, Memory, Message, NewMemory, Relation, Supersession, Unabsorbed
from mnemic.state.settings import Settings
from mnemic.storage import inbox, memories, scopes
from mnemic.storage.transaction import ScopedTransaction

#: Maximum characters of a shared fact with the sentences that it renews, since it is shown whole.
_MAX_JOINED_CHARS: Final = 1200


class _Plan(NamedTuple):
    """Rows that a run is going to write, as far as they are known before its transaction."""

    memories: Sequence[NewMemory]
    supersessions: Sequence[Supersession]
    #: Messages that stay searchable.
    kept: Sequence[Message]
    #: Ids of messages that a memory, or a statement of the model, covers.
    covered: Set[UUID]
    #: Number of memories beyond the limit of a turn.
    over_limit: int


class _Indexed(NamedTuple):
    """Vectors of a plan's memories and messages, and the resources with the embedder that made them."""

    resources: Resources
    vectors: Mapping[UUID, Vector | None]
    texts: Sequence[IndexedText]


class _Inserted(NamedTuple):
    """Memories of a plan: those that are stored now, and those that an active duplicate kept out."""

    stored: Sequence[NewMemory]
    dropped: Sequence[NewMemory]

    @classmethod
    def of(cls, new: Iterable[NewMemory], stored_ids: Set[UUID]) -> "_Inserted":
        """Return the memories by whether their ids are among the stored ones."""
        stored: list[NewMemory] = []
        dropped: list[NewMemory] = []
        for memory in new:
            (stored if memory.id in stored_ids else dropped).append(memory)
        return cls(stored, dropped)

    def has_stored(self, memory_id: UUID) -> bool:
        """Return whether the memory with this id is stored now."""
        return any(memory.id == memory_id for memory in self.stored)


async def save(resources: Resources, identity: Identity, run: FormationRun) -> FormationRun:
    """Store the memories of a run and settle its messages, all or nothing.

    One embedding batch comes before the transaction. Vectors that could not be made are filled in the background.

    Args:
        resources: the open database and models.
        identity: identity of the run.
        run: the run, with its drafts and decisions.

    Raises:
        ConcurrentChangeError: if another run has changed the messages or memories, or used up the day's writes.
    """
    settings, keys, run_id = resources.settings.overridden(run.overrides), speaker_keys(run), run.run_id
    plan = await _plan(resources, identity, run, settings)
    indexed = await _index(resources, identity, run, plan)

    async def save_in(tx: ScopedTransaction) -> tuple[FormationRun, _Inserted, bool]:
        op_id = await tx.begin_operation("formation", run_id=run_id, meta=_submitters(run))
        forget_after = dict.fromkeys(plan.covered - ids_of(plan.kept), timedelta(days=settings.forget_after_days))
        await inbox.settle(tx, op_id, run.batch, read_revision=run.read_revision, forget_after=forget_after)
        model = indexed.resources.embedder.name
        stored_ids = await memories.insert(tx, plan.memories, model=model, vectors=indexed.vectors, run_id=run_id)
        inserted = _Inserted.of(plan.memories, stored_ids)
        superseded = await _supersede(tx, run, plan, inserted)
        if run.max_writes is not None:
            await _count_turn(tx, quota_scope_key(run.batch, identity), len(inserted.stored), settings)
        if indexed.texts:
            await inbox.index_messages(tx, model, indexed.texts)
        due = await due_scope_keys(tx, settings, resources.categories.personal)
        pending, has_due_vectors = await inbox.end_formation(tx, session_of(identity), run.lease)
        saved = replace(_saved(run, plan, inserted), superseded=superseded, due=due, pending=pending)
        return saved, inserted, has_due_vectors

    run, inserted, has_due_vectors = await resources.database.write(identity, save_in, also=keys)
    _note_events(resources, identity, run, inserted.stored)
    if has_due_vectors:
        embed_later(indexed.resources, identity, also=keys)
    return run


async def _plan(resources: Resources, identity: Identity, run: FormationRun, settings: Settings) -> _Plan:
    drafted = [*run.facts, *run.reflections]
    new, supersessions = within_limit(drafted, run.supersessions, run.max_writes)
    coverage = without_dropped(run.coverage, drafted, new)
    over_limit = len(drafted) - len(new)
    new = [with_shared_wording(memory) for memory in new]
    if any(row.until is None for row in supersessions):
        async with resources.database.transaction(identity, also=speaker_keys(run)) as tx:
            new, supersessions = await _with_renewed(tx, new, supersessions)
    new = _without_closed_relations(new, supersessions)
    return _Plan(
        memories=new,
        supersessions=supersessions,
        kept=_kept_messages(run, new, coverage, settings),
        covered=_covered(run.batch, coverage),
        over_limit=over_limit,
    )


def within_limit(
    new: Sequence[NewMemory], supersessions: Sequence[Supersession], limit: int | None
) -> tuple[list[NewMemory], list[Supersession]]:
    """Return the most important memories up to a limit, and the supersessions by these; all of them without a limit."""
    if limit is None:
        return list(new), list(supersessions)
    retained = most_important(new, limit)
    ids = ids_of(retained)
    return retained, [row for row in supersessions if row.new_id in ids]


async def _with_renewed(
    tx: ScopedTransaction, new: Sequence[NewMemory], supersessions: Sequence[Supersession]
) -> tuple[list[NewMemory], list[Supersession]]:
    """Return memories and supersessions, so that a merged shared fact has the typed sentence of each of its parts.

    A fact whose sentence does not fit stays active.
    """
    reworded = {memory.id: memory for memory in new if memory.draft is not None}
    retained: list[Supersession] = []
    for row in supersessions:
        if row.until is None and row.new_id in reworded:
            old = await memories.find(tx, row.old_id)
            joined = _with_former(reworded[row.new_id], old) if old else None
            if joined is None:
                continue
            reworded[row.new_id] = joined
        retained.append(row)
    return [reworded.get(memory.id, memory) for memory in new], retained


def _with_former(new: NewMemory, old: Memory) -> NewMemory | None:
    """Return a shared memory with the typed sentence of the one that it renews, or None if both are too long.

    The former sentence follows on a line of its own, with its author if that is another one.
    """
    former = old.said or old.content
    if old.author != new.actor_id:
        former = f"{display_name(old.author or old.subject)}: {former}"
    content = f"{new.content}\n{former}"
    if len(content) > _MAX_JOINED_CHARS:
        return None
    return replace(new, content=content, said=content)


def _without_closed_relations(new: Sequence[NewMemory], supersessions: Sequence[Supersession]) -> list[NewMemory]:
    """Return the memories without relations of, or to, facts that the run closes."""
    closed = {row.old_id for row in supersessions}
    result: list[NewMemory] = []
    for memory in new:
        relations: list[Relation] = []
        for row in memory.relations:
            if memory.id not in closed and row.to_id not in closed:
                relations.append(row)
        result.append(replace(memory, relations=tuple(relations)))
    return result


def _covered(batch: Iterable[Message], coverage: Coverage) -> set[UUID]:
    """Return the ids of messages that a memory rests on, or that every step declared empty."""
    covered: set[UUID] = set()
    for message in batch:
        if message.id in coverage.cited or (coverage.nothing_else and message.id not in coverage.open):
            covered.add(message.id)
    return covered


def _kept_messages(
    run: FormationRun, new: Sequence[NewMemory], coverage: Coverage, settings: Settings
) -> list[Message]:
    """Return the messages that stay searchable.

    If only sources stay, so do attachments, and the messages of users that refused drafts rest on.
    """
    if settings.kept_messages == "all":
        return list(run.batch)
    if settings.kept_messages != "sources":
        return []
    sources: set[UUID] = set()
    for _, message_id in further_sources(run.duplicates, new, run.batch):
        sources.add(message_id)
    for memory in new:
        sources.update(memory.source_message_ids)
    kept: list[Message] = []
    for message in run.batch:
        is_refused = message.id in coverage.open and message.role == "user"
        if message.id in sources or message.role == "attachment" or is_refused:
            kept.append(message)
    return kept


def further_sources(
    duplicates: Sequence[DuplicateDraft], new: Iterable[NewMemory], batch: Iterable[Message]
) -> list[tuple[UUID, UUID]]:
    """Return ids of memories, each with the id of a message that repeats it.

    A duplicate of a dropped duplicate counts for the stored memory at the end of the chain. A shared memory has no
    further sources, so that a person who only agrees can be erased without it.
    """
    owner_keys: dict[UUID, str | None] = {}
    for message in batch:
        owner_keys[message.id] = scope_key("user", message.user_id) if message.user_id else None
    chains = _DuplicateChains(duplicates, ids_of(new))
    pairs: set[tuple[UUID, UUID]] = set()
    for row in duplicates:
        if not row.scope_key.startswith(("user:", "session:")):
            continue
        stored_ids = chains.stored_ids(row)
        for message_id in row.new.source_message_ids:
            if owner_keys.get(message_id, "") in (None, row.scope_key):
                pairs.update((stored_id, message_id) for stored_id in stored_ids)
    return sorted(pairs)


class _DuplicateChains:
    """Duplicates of a run, which may repeat other duplicates."""

    def __init__(self, duplicates: Iterable[DuplicateDraft], new_ids: Set[UUID]) -> None:
        self._new_ids = new_ids
        self._by_draft: dict[UUID, list[DuplicateDraft]] = {}
        for row in duplicates:
            self._by_draft.setdefault(row.new.id, []).append(row)

    def stored_ids(self, row: DuplicateDraft, visited: frozenset[UUID] = frozenset()) -> set[UUID]:
        """Return the ids of the stored memories that a duplicate repeats in the end; two may repeat each other."""
        if row.is_stored or row.known_id in self._new_ids:
            return {row.known_id}
        if row.known_id in visited:
            return set()
        ids: set[UUID] = set()
        for other in self._by_draft.get(row.known_id, ()):
            ids |= self.stored_ids(other, visited | {row.known_id})
        return ids


async def _index(resources: Resources, identity: Identity, run: FormationRun, plan: _Plan) -> _Indexed:
    """Embed memories without a vector, and each piece of a kept message with its date and author, in one batch.

    The embedder that made the first vectors of the run makes the others.
    """
    if run.vectors and run.embedder:
        resources = resources.with_embedder(run.embedder)
    else:
        resources = await with_agents_embedder(resources, identity)
    missing: list[NewMemory] = []
    wanted: list[str] = []
    for memory in plan.memories:
        if memory.id not in run.vectors:
            missing.append(memory)
            wanted.append(memory.search_text)
    texts: list[IndexedText] = []
    for message in plan.kept:
        for number, piece in enumerate(pieces(message.content)):
            text = search_text(message.said_at, message.author, piece)
            texts.append(IndexedText(item_id=message.id, piece=number, text=text))
            wanted.append(text)
    made = iter(await embed_to_store(resources, wanted))
    vectors = dict(run.vectors)
    for memory in missing:
        vectors[memory.id] = next(made)
    return _Indexed(resources=resources, vectors=vectors, texts=[text._replace(vector=next(made)) for text in texts])


def _submitters(run: FormationRun) -> dict[str, list[str]]:
    """Return the users who submitted messages of others, for the history."""
    others = submitters(run.batch)
    if not others:
        return {}
    return {"submitted_by": others}


async def _supersede(tx: ScopedTransaction, run: FormationRun, plan: _Plan, inserted: _Inserted) -> int:
    """Close superseded facts and add further sources; return the number of closed facts.

    If an active duplicate kept a new memory from being stored, the duplicate takes its place.
    """
    exact: dict[UUID, ExactDuplicate] = {}
    if inserted.dropped:
        exact = await memories.find_exact_duplicates(tx, inserted.dropped)
    changes: list[Supersession] = []
    for row in plan.supersessions:
        duplicate = exact.get(row.new_id)
        if duplicate and duplicate.id != row.old_id:
            changes.append(row._replace(new_id=duplicate.id))
        elif inserted.has_stored(row.new_id):
            changes.append(row)
    if changes:
        await memories.supersede(tx, changes)
    duplicates = [*run.duplicates]
    for memory in inserted.dropped:
        if memory.id in exact:
            duplicates += duplicates_of(memory, [exact[memory.id]])
    await memories.add_sources(tx, further_sources(duplicates, inserted.stored, run.batch))
    return len(changes)


async def _count_turn(tx: ScopedTransaction, key: str | None, written: int, settings: Settings) -> None:
    """Add the writes of a turn to the day of its user.

    The operation holds the agent's lock, so that two runs of one user are counted one after the other.

    Raises:
        ConcurrentChangeError: if another run has used up the day's writes.
    """
    if key is None or not written:
        return
    if await scopes.count_turn_writes(tx, key, written) > settings.writes_per_user_and_day:
        raise ConcurrentChangeError(
            "another run has used up today's limit of writes for this user's turns; nothing was written. Run it again"
        )


def _saved(run: FormationRun, plan: _Plan, inserted: _Inserted) -> FormationRun:
    refused: Mapping[str, int] = run.refused
    if plan.over_limit:
        refused = added_counts(refused, {"over_limit": plan.over_limit})
    return replace(
        run,
        stored=Counter(memory.kind for memory in inserted.stored),
        uncovered_messages=len(run.batch) - len(plan.covered),
        refused=refused,
    )


def _note_events(resources: Resources, identity: Identity, run: FormationRun, stored: Sequence[NewMemory]) -> None:
    events = resources.events
    events.note_created(identity, "formation", stored)
    events.note_count(identity, ("formation", "supersede"), run.superseded)
    events.note_count(identity, ("formation", "create"), sum(run.refused.values()), "skipped")


async def due_scope_keys(tx: ScopedTransaction, settings: Settings, personal: Set[str]) -> list[str]:
    """Return the scope keys with enough unabsorbed reflections, or with texts that rest on stale facts.

    Args:
        tx: the transaction of a formation's operation.
        settings: settings of the agent.
        personal: categories that are never shared.
    """
    unabsorbed = await memories.count_unabsorbed(tx)
    stale: set[str] = set()
    for row in await memories.find_stale(tx, tx.scope_keys, personal):
        stale.add(row.scope_key)
    due: list[str] = []
    for key in sorted(unabsorbed.keys() | stale):
        reflections = unabsorbed.get(key, Unabsorbed())
        threshold = reflections.threshold or settings.of_scope(split_scope_key(key)[0], "threshold")
        if reflections.is_active and (key in stale or reflections.waiting >= threshold):
            due.append(key)
    return due
