"""Memories: stored, closed, absorbed, read. The caller owns the transaction and, for writes, has begun an operation."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.formation import ExactDuplicate, SimilarFact, UpdateRequest
from mnemic.state.kinds import CONTEXT_KINDS, INDEXED_KINDS, Kind, State
from mnemic.state.records import ContextPart, Memory, NewMemory, Relation, ScopeContext, StaleMemory, Supersession
from mnemic.state.refinement import LedgerEntry
from mnemic.state.times import offset_minutes
from mnemic.storage.transaction import ScopedTransaction, array_text, half_vectors, load_statements, with_parts

_SQL = load_statements("memories")
_NEAREST, _CANDIDATES = with_parts(_SQL["similar"]), with_parts(_SQL["similar"], "more")
#: States in which a memory is in context or searched.
RETAINED_STATES: tuple[State, ...] = ("active", "absorbed")

Vectors = Mapping[UUID, Sequence[float] | None]


async def insert(
    tx: ScopedTransaction, memories: Sequence[NewMemory], *, model: str, vectors: Vectors, run_id: str | None
) -> set[UUID]:
    """Stores memories with their entries, sources and relations in one statement.

    A relation to what is gone, or not to be seen by this transaction, is left out.

    Args:
        model: name of the embedding model the vectors come from.
        vectors: by memory id; a missing or None vector leaves the embedding pending.

    Returns:
        The ids that were stored; a memory whose twin already lives in its scope key is left out.
    """
    values = {
        "memories": _as_json(tx, memories),
        "actor_id": tx.identity.actor,
        "role": tx.identity.role,
        "run_id": run_id,
        "model": model,
        "indexed_kinds": list(INDEXED_KINDS),
        "vectors": half_vectors(vectors.get(memory.id) for memory in memories),
    }
    return {memory_id for (memory_id,) in await tx.tuples(_SQL["insert"], values)}


async def add_sources(tx: ScopedTransaction, said_again: Sequence[tuple[UUID, UUID]]) -> None:
    """Lets memories rest on further messages, each of which says again what its memory says."""
    if said_again:
        memory_ids, message_ids = zip(*said_again, strict=True)
        await tx.execute(_SQL["add_sources"], {"memory_ids": [*memory_ids], "message_ids": [*message_ids]})


async def find_exact_duplicates(tx: ScopedTransaction, memories: Sequence[NewMemory]) -> dict[UUID, ExactDuplicate]:
    """The living memories that say the same as these, by the id of the new one."""
    found = await tx.rows(ExactDuplicate, _SQL["twins"], {"memories": _as_json(tx, memories)})
    return {twin.new_id: twin for twin in found}


def _as_json(tx: ScopedTransaction, memories: Sequence[NewMemory]) -> str:
    def plain(value: object) -> object:
        return vars(value) if isinstance(value, Relation) else str(value)

    rows = []
    for memory in memories:  # asdict would copy each value
        stored = {"scope_key": tx.stored_key(memory.scope_key), "utc_offset": offset_minutes(memory.valid_from)}
        if memory.source_session_id == tx.identity.session_id:
            stored["source_session_id"] = tx.stored_session_id
        rows.append({**vars(memory), **stored})
    return json.dumps(rows, default=plain)


async def supersede(tx: ScopedTransaction, changes: Sequence[Supersession]) -> None:
    """Closes facts that others replace.

    Raises:
        ConcurrentChangeError: one of them is not as it was read.
    """
    ordered = sorted(changes)
    values = {
        "old_ids": [change.old_id for change in ordered],
        "versions": [change.old_version for change in ordered],
        "new_ids": [change.new_id for change in ordered],
        "untils": [change.until for change in ordered],
    }
    await _all_or_nothing(tx, "supersede", values, len(ordered))


async def absorb(tx: ScopedTransaction, consolidation_id: UUID, reflection_ids: Sequence[UUID]) -> None:
    """Takes reflections out of the context and into a consolidation.

    Raises:
        ConcurrentChangeError: one of them is no longer unabsorbed.
    """
    values = {"consolidation_id": consolidation_id, "ids": sorted(reflection_ids)}
    await _all_or_nothing(tx, "absorb", values, len(reflection_ids))


async def find_stale(tx: ScopedTransaction, keys: Sequence[str], personal: Iterable[str]) -> list[StaleMemory]:
    """What no longer holds of what the reflections and consolidations of these scope keys rest on, oldest first.

    Args:
        personal: categories that are a person's own: those who share a scope key are not told of what was in them.
    """
    values = {"keys": [*keys], "personal": sorted(personal)}
    return await tx.rows(StaleMemory, _SQL["outdated"], values)


async def close_parts(tx: ScopedTransaction, consolidation_id: UUID, ids: Collection[UUID]) -> None:
    """Closes texts whose place a consolidation takes, which keeps what still holds of them."""
    await tx.execute(_SQL["close_parts"], {"consolidation_id": consolidation_id, "ids": sorted(ids)})


async def read_drafts(tx: ScopedTransaction, ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the texts that a model wrote, of the memories of which readers get other words."""
    return dict(await tx.tuples(_SQL["drafts"], {"ids": sorted(ids)}))


async def with_drafts(tx: ScopedTransaction, part: ContextPart) -> ContextPart:
    """Return what is always in context in the words of the models that wrote it, as formation reads it."""
    memories = [memory for scope in part.scopes for memory in [*scope.texts, *scope.facts]]
    found = await read_drafts(tx, [memory.id for memory in memories])
    if not found:
        return part

    def drafted(memory: Memory) -> Memory:
        return replace(memory, content=found.get(memory.id, memory.content))

    scopes = []
    for scope in part.scopes:
        scopes.append(
            replace(
                scope,
                consolidation=drafted(scope.consolidation) if scope.consolidation else None,
                core=tuple(map(drafted, scope.core)),
                reflections=tuple(map(drafted, scope.reflections)),
                facts=tuple(map(drafted, scope.facts)),
            )
        )
    return part._replace(scopes=tuple(scopes))


async def read_absorbed(tx: ScopedTransaction, consolidation_id: UUID) -> list[Memory]:
    """Return the reflections that a consolidation has taken in and still holds, oldest first."""
    return await tx.rows(Memory, _SQL["parts"], {"id": consolidation_id})


async def rewrite(tx: ScopedTransaction, old: Memory | LedgerEntry, content: str, *, draft: str | None = None) -> None:
    """Gives a living memory that is always in context other words.

    Args:
        tx: sees the memory.
        old: the memory as it was read.
        content: its new words.
        draft: text that a model wrote, if readers get other words.

    Raises:
        ConcurrentChangeError: it is not the version that was read.
    """
    values = {"id": old.id, "version": old.version, "content": content, "draft": draft, "kinds": CONTEXT_KINDS}
    await _all_or_nothing(tx, "rewrite", values, 1)


async def read_context(
    tx: ScopedTransaction,
    *,
    kinds: Sequence[Kind] = CONTEXT_KINDS,
    fact_categories: Sequence[str] = (),
    max_facts: int = 0,
) -> ContextPart:
    """What is always in context.

    Args:
        kinds: which of the standing kinds.
        fact_categories: categories of facts that are in context too.
        max_facts: maximum number of facts; the most important and newest are returned.
    """
    values = {"kinds": list(kinds), "always": list(fact_categories), "most": max_facts}
    rows = await tx.rows(dict, _SQL["standing"], values)
    overrides = [row.pop("overrides") for row in rows]  # in every row, in one without a memory too
    found: dict[str, dict[str, list[Memory]]] = {key: defaultdict(list) for key in tx.scope_keys}
    for memory in (Memory(**row) for row in rows if row["id"]):
        found.setdefault(memory.scope_key, defaultdict(list))[memory.kind].append(memory)
    scopes = [
        ScopeContext(
            scope_key=key,
            consolidation=next(iter(own["consolidation"]), None),
            core=tuple(own["core"]),
            reflections=tuple(own["reflection"]),
            facts=tuple(own["fact"]),
        )
        for key, own in found.items()
        if own
    ]
    return ContextPart(overrides=overrides[0] if overrides else {}, scopes=tuple(scopes))


async def list_memories(
    tx: ScopedTransaction, kinds: Sequence[Kind], *, limit: int, with_closed: bool = False
) -> list[Memory]:
    """Memories of the visible scope keys, newest first; superseded and absorbed ones too where asked."""
    values = {"kinds": list(kinds), "most": limit, "with_closed": with_closed}
    return await tx.rows(Memory, _SQL["living"], values, for_host=True)


async def find_nearest(
    tx: ScopedTransaction,
    scope_keys: Sequence[str],
    vectors: Sequence[Sequence[float] | None],
    *,
    model: str,
    limit: int,
) -> list[SimilarFact]:
    """The nearest living facts of each new fact's own scope key, in one statement; none for a fact without a vector."""
    values = {"facts": json.dumps([{"scope_keys": [key]} for key in scope_keys]), "model": model, "most": limit}
    return await tx.rows(SimilarFact, _NEAREST, values | {"vectors": half_vectors(vectors)})


async def find_candidates(
    tx: ScopedTransaction,
    facts: Sequence[NewMemory],
    scope_keys: Sequence[Sequence[str]],
    vectors: Sequence[Sequence[float] | None],
    *,
    model: str,
    limit: int,
) -> list[SimilarFact]:
    """The living facts that each new fact may change, the likeliest first, in one statement.

    They are those nearest in meaning, those that share most words with it, and the most important and newest of its
    subject and user, of its own category first. What several ways find comes first, and the best of each is among them.

    Args:
        scope_keys: for each new fact those in which it may change anything.
        vectors: of the new facts; a fact without one is compared by words and subject alone.
        limit: maximum number of candidates for each fact.
    """
    given = [
        {"scope_keys": [*keys], "subject": fact.subject, "user_id": fact.subject_user_id, "category": fact.category,
         "content": fact.content}
        for fact, keys in zip(facts, scope_keys, strict=True)
    ]  # fmt: skip
    values = {"facts": json.dumps(given), "vectors": half_vectors(vectors), "model": model, "most": limit}
    return await tx.rows(SimilarFact, _CANDIDATES, values)


async def count_unabsorbed(tx: ScopedTransaction) -> dict[str, int]:
    """Unabsorbed reflections by scope key."""
    return {tx.host_session(key): count for key, count in await tx.tuples(_SQL["unabsorbed"], {})}


async def find(tx: ScopedTransaction, memory_id: UUID) -> Memory | None:
    """The memory with this id, whatever its state; None where it is not to be seen."""
    found = await tx.rows(Memory, _SQL["find"], {"id": memory_id}, for_host=True)
    return found[0] if found else None


async def count_uses(tx: ScopedTransaction, memory_ids: Collection[UUID]) -> None:
    """Counts one more use of each; ids that are no memories, or may not be seen, count for nothing."""
    await tx.execute(_SQL["count_uses"], {"ids": list(memory_ids)})


async def make_private(tx: ScopedTransaction, memory_id: UUID) -> None:
    """Marks a living memory as said in confidence, unless it is protected."""
    await tx.execute(_SQL["make_private"], {"id": memory_id})


async def update(tx: ScopedTransaction, memory: Memory, request: UpdateRequest) -> None:
    """Change what is known about a memory, not what it says.

    Raises:
        ConcurrentChangeError: It is not as it was read.
    """
    values = {**request.model_dump(), "id": memory.id, "version": memory.version}
    values["tags"] = None if request.tags is None else [*request.tags]
    await _all_or_nothing(tx, "update", values, 1)


async def allow_categories(tx: ScopedTransaction, categories: Sequence[str] | None) -> None:
    """For the rest of the transaction these alone, or all: sources of what a role may ask for are of any category."""
    listed = "" if categories is None else array_text(tuple(categories))
    await tx.execute(_SQL["see_categories"], {"categories": listed})


async def forget(tx: ScopedTransaction, memory: Memory | LedgerEntry) -> None:
    """Soft-deletes a memory, and takes out of search the source messages that no other living memory rests on.

    Raises:
        ConcurrentChangeError: it is not as it was read.
    """
    await _all_or_nothing(tx, "forget", {"id": memory.id, "version": memory.version}, 1)


async def forget_derived(tx: ScopedTransaction, memory_id: UUID) -> None:
    """Soft-deletes the unabsorbed reflections of its scope key and the session that rest on this fact's words alone.

    Where another living fact was drawn from the same words, they may be about that one, and stay.
    """
    await tx.execute(_SQL["forget_drawn"], {"id": memory_id})


async def set_protection(tx: ScopedTransaction, memory_id: UUID, *, protected: bool) -> bool | None:
    """As administrator: protects a memory, or lifts that; whether it changed, None where no such memory lives."""
    who = tx.identity
    ((changed,),) = await tx.call_with_head("set_protection", who.agent_id, memory_id, protected, who.actor)
    return None if changed is None else bool(changed)


async def _all_or_nothing(tx: ScopedTransaction, name: str, values: Mapping[str, object], expected: int) -> None:
    if len(await tx.tuples(_SQL[name], values)) != expected:
        raise ConcurrentChangeError
