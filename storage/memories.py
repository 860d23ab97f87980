"""Reads and writes of memories.

The caller owns the transaction and has begun an operation for writes.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.formation import ExactDuplicate, SimilarFact
from mnemic.state.kinds import CONTEXT_KINDS, SEARCHED_KINDS, Kind
from mnemic.state.records import (
    ContextPart,
    Memory,
    NewMemory,
    Relation,
    ScopeContext,
    StaleMemory,
    Supersession,
    TurnWords,
    Unabsorbed,
    WordCounts,
)
from mnemic.state.times import offset_minutes
from mnemic.storage.transaction import (
    ScopedTransaction,
    array_text,
    first_column,
    half_vectors,
    load_statements,
    with_parts,
)

if TYPE_CHECKING:  # records of features that importing the graphs of recall and formation does not need
    from mnemic.state.explicit import UpdateRequest
    from mnemic.state.refinement import LedgerEntry

_SQL = load_statements("memories")
_CONTEXT, _CONTEXT_AND_WORDS = with_parts(_SQL["read_context"]), with_parts(_SQL["read_context"], "words")
_NEAREST, _CANDIDATES = with_parts(_SQL["similar"]), with_parts(_SQL["similar"], "more")

#: A word is rare if at most so many entries have it, or this share of all entries, but never more than the maximum.
MIN_RARE: Final = 5
RARE_SHARE: Final = 0.05
MAX_RARE: Final = 50

#: Vectors by memory id; None for a pending embedding.
Vectors = Mapping[UUID, Sequence[float] | None]


async def insert(
    tx: ScopedTransaction, memories: Sequence[NewMemory], *, model: str, vectors: Vectors, run_id: str | None
) -> set[UUID]:
    """Store memories with their entries, sources and relations in one statement.

    A relation to a memory that is gone or hidden from this transaction is left out.

    Args:
        tx: sees the scope keys of the memories.
        memories: the new memories.
        model: name of the embedding model of the vectors.
        vectors: by memory id; a missing or None vector leaves the embedding pending.
        run_id: the graph run, if any.

    Returns:
        The ids of the stored memories, without exact duplicates of active memories of the same scope key.
    """
    values = {
        "memories": _as_json(tx, memories),
        "actor_id": tx.identity.actor,
        "role": tx.identity.role,
        "run_id": run_id,
        "model": model,
        "vectors": half_vectors([vectors.get(memory.id) for memory in memories]),
    }
    return set(first_column(await tx.tuples(_SQL["insert"], values)))


async def add_sources(tx: ScopedTransaction, repeated: Sequence[tuple[UUID, UUID]]) -> None:
    """Store further messages as sources of memories.

    Args:
        tx: sees the memories.
        repeated: pairs of a memory and a message that repeats it.
    """
    if repeated:
        memory_ids, message_ids = zip(*repeated, strict=True)
        await tx.execute(_SQL["add_sources"], {"memory_ids": [*memory_ids], "message_ids": [*message_ids]})


async def find_exact_duplicates(tx: ScopedTransaction, memories: Sequence[NewMemory]) -> dict[UUID, ExactDuplicate]:
    """Return the active memories with the same content as new ones, by the id of the new one."""
    values = {"memories": _as_json(tx, memories)}
    duplicates = await tx.rows(ExactDuplicate, _SQL["find_exact_duplicates"], values)
    return {duplicate.new_id: duplicate for duplicate in duplicates}


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
    """Close facts that others replace.

    Raises:
        ConcurrentChangeError: if one of them is not as it was read.
    """
    values: dict[str, list[Any]] = {"old_ids": [], "versions": [], "new_ids": [], "untils": []}
    for change in sorted(changes):
        values["old_ids"].append(change.old_id)
        values["versions"].append(change.old_version)
        values["new_ids"].append(change.new_id)
        values["untils"].append(change.until)
    await _change_all(tx, "supersede", values, len(changes))


async def absorb(tx: ScopedTransaction, consolidation_id: UUID, reflection_ids: Sequence[UUID]) -> None:
    """Move reflections out of the context and into a consolidation.

    Raises:
        ConcurrentChangeError: if one of them is already absorbed or closed.
    """
    values = {"consolidation_id": consolidation_id, "ids": sorted(reflection_ids)}
    await _change_all(tx, "absorb", values, len(reflection_ids))


async def find_stale(tx: ScopedTransaction, keys: Sequence[str], personal: Iterable[str]) -> list[StaleMemory]:
    """Return the closed facts that reflections and consolidations of these scope keys rest on, oldest first.

    Args:
        tx: sees the scope keys.
        keys: scope keys.
        personal: personal categories; other members of a scope key do not see their facts.
    """
    values = {"keys": [*keys], "personal": sorted(personal)}
    return await tx.rows(StaleMemory, _SQL["find_stale"], values)


async def close_parts(tx: ScopedTransaction, consolidation_id: UUID, ids: Collection[UUID]) -> None:
    """Close texts that a consolidation replaces; it keeps their valid content."""
    await tx.execute(_SQL["close_parts"], {"consolidation_id": consolidation_id, "ids": sorted(ids)})


async def read_drafts(tx: ScopedTransaction, ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the texts that a model wrote, of those memories whose content differs from its draft."""
    return dict(await tx.tuples(_SQL["read_drafts"], {"ids": sorted(ids)}))


async def read_absorbed(tx: ScopedTransaction, consolidation_id: UUID) -> list[Memory]:
    """Return the reflections that a consolidation has absorbed and still holds, oldest first."""
    return await tx.rows(Memory, _SQL["read_absorbed"], {"id": consolidation_id})


async def rewrite(
    tx: ScopedTransaction, old: "Memory | LedgerEntry", content: str, *, draft: str | None = None
) -> None:
    """Replace the content of an active context memory.

    Args:
        tx: sees the memory.
        old: the memory as it was read.
        content: its new content.
        draft: text that a model wrote, if the content differs from it.

    Raises:
        ConcurrentChangeError: if it is not the version that was read.
    """
    values = {"id": old.id, "version": old.version, "content": content, "draft": draft, "kinds": CONTEXT_KINDS}
    await _change_all(tx, "rewrite", values, 1)


async def read_context(  # noqa: PLR0913 - kinds and limits of the context, and two ways to read it
    tx: ScopedTransaction,
    *,
    kinds: Sequence[Kind] = CONTEXT_KINDS,
    fact_categories: Sequence[str] = (),
    max_facts: int = 0,
    as_drafted: bool = False,
    turn: TurnWords | None = None,
    keys: Sequence[str] | None = None,
) -> ContextPart:
    """Return the memories that are always in context, and the agent's overrides.

    Args:
        tx: sees the scope keys.
        kinds: the context kinds that are read.
        fact_categories: categories of facts that are in context too.
        max_facts: maximum number of facts; the most important and newest are returned.
        as_drafted: return the texts that models wrote, as formation reads them, not those for readers.
        turn: words of a turn, to count the searchable entries with each.
        keys: scope keys that are read; None: all that the transaction sees.
    """
    keys = tx.scope_keys if keys is None else tuple(keys)
    values: dict[str, Any] = {
        "kinds": list(kinds),
        "always": list(fact_categories),
        "most": max_facts,
        "as_drafted": as_drafted,
        "scope_keys": keys,
    }
    statement = _CONTEXT
    if turn:
        statement = _CONTEXT_AND_WORDS
        values |= {"turn": list(turn.all), "words": list(turn.content), "searched": [*SEARCHED_KINDS, "message"]}
        values |= {"min_rare": MIN_RARE, "max_rare": MAX_RARE, "rare_share": RARE_SHARE}
    rows = await tx.rows(dict, statement, values)
    overrides: dict[str, Any] = {}
    counts: WordCounts | None = None
    by_key: dict[str, dict[str, list[Memory]]] = {}
    for key in keys:
        by_key[key] = defaultdict(list)
    for row in rows:
        overrides = row.pop("overrides")  # the same in every row; a row without a memory has it too
        draft = row.pop("draft")
        if draft is not None:
            row["content"] = draft
        if turn:
            counts = _word_counts(row, turn)
        if row["id"]:
            memory = Memory(**row)
            by_key.setdefault(memory.scope_key, defaultdict(list))[memory.kind].append(memory)
    scopes: list[ScopeContext] = []
    for key, by_kind in by_key.items():
        if by_kind:
            scope = ScopeContext(
                scope_key=key,
                consolidation=next(iter(by_kind["consolidation"]), None),
                core=tuple(by_kind["core"]),
                reflections=tuple(by_kind["reflection"]),
                facts=tuple(by_kind["fact"]),
            )
            scopes.append(scope)
    return ContextPart(overrides=overrides, scopes=tuple(scopes), counts=counts)


def _word_counts(row: dict[str, Any], turn: TurnWords) -> WordCounts:
    """Take the columns of the counts, the same in every row, out of a row."""
    rare_by_entry: list[frozenset[str]] = []
    for bits in row.pop("rare") or ():
        rare_by_entry.append(frozenset(word for place, word in enumerate(turn.content) if bits >> place & 1))
    return WordCounts(
        is_indexed_language=row.pop("is_indexed_language"),
        by_word=dict(zip(turn.content, row.pop("entries_by_word"), strict=True)),
        rare_by_entry=tuple(rare_by_entry),
    )


async def list_memories(
    tx: ScopedTransaction, kinds: Sequence[Kind], *, limit: int, with_closed: bool = False
) -> list[Memory]:
    """Return active memories of the visible scope keys, newest first; on request superseded and absorbed ones too."""
    values = {"kinds": list(kinds), "most": limit, "with_closed": with_closed}
    return await tx.rows(Memory, _SQL["list_memories"], values, for_host=True)


async def find_nearest(
    tx: ScopedTransaction,
    scope_keys: Sequence[str],
    vectors: Sequence[Sequence[float] | None],
    *,
    model: str,
    limit: int,
) -> list[SimilarFact]:
    """Return the nearest active facts of each new fact's scope key, in one statement; none for a missing vector."""
    facts: list[dict[str, list[str]]] = []
    for key in scope_keys:
        facts.append({"scope_keys": [key]})
    values = {
        "facts": json.dumps(facts),
        "vectors": half_vectors(vectors),
        "model": model,
        "most": limit,
    }
    return await tx.rows(SimilarFact, _NEAREST, values)


async def find_candidates(  # noqa: PLR0913 - the values of one statement
    tx: ScopedTransaction,
    facts: Sequence[NewMemory],
    scope_keys: Sequence[Sequence[str]],
    vectors: Sequence[Sequence[float] | None],
    *,
    model: str,
    limit: int,
) -> list[SimilarFact]:
    """Return the active facts that each new fact may change, the most likely first, in one statement.

    The search combines the facts nearest in meaning, those that share most words, and the most important and newest of
    the same subject and user, of its own category first. Facts that several searches find come first. The best of each
    search is included.

    Args:
        tx: sees the scope keys.
        facts: the new facts.
        scope_keys: for each new fact those in which it may change a fact.
        vectors: of the new facts; a fact without one is compared by words and subject alone.
        model: name of the embedding model.
        limit: maximum number of candidates for each fact.
    """
    rows = []
    for fact, keys in zip(facts, scope_keys, strict=True):
        row = {
            "scope_keys": [*keys],
            "subject": fact.subject,
            "user_id": fact.subject_user_id,
            "category": fact.category,
            "content": fact.content,
        }
        rows.append(row)
    values = {"facts": json.dumps(rows), "vectors": half_vectors(vectors), "model": model, "most": limit}
    return await tx.rows(SimilarFact, _CANDIDATES, values)


async def count_unabsorbed(tx: ScopedTransaction) -> dict[str, Unabsorbed]:
    """Return the number of unabsorbed reflections by scope key, with the key's overrides of consolidations."""
    counts: dict[str, Unabsorbed] = {}
    for key, *values in await tx.tuples(_SQL["count_unabsorbed"], {}):
        counts[tx.host_session(key)] = Unabsorbed(*values)
    return counts


async def find(tx: ScopedTransaction, memory_id: UUID) -> Memory | None:
    """Return the memory with this id in any state, or None if it is not visible."""
    rows = await tx.rows(Memory, _SQL["find"], {"id": memory_id}, for_host=True)
    return rows[0] if rows else None


async def count_uses(tx: ScopedTransaction, memory_ids: Collection[UUID]) -> None:
    """Count one more use of each memory; ids that are unknown or hidden are ignored."""
    await tx.execute(_SQL["count_uses"], {"ids": list(memory_ids)})


async def make_private(tx: ScopedTransaction, memory_id: UUID) -> None:
    """Mark an active memory as private, unless it is protected."""
    await tx.execute(_SQL["make_private"], {"id": memory_id})


async def update(tx: ScopedTransaction, memory: Memory, request: "UpdateRequest") -> None:
    """Change the pin, tags, importance or end of validity of a memory.

    Raises:
        ConcurrentChangeError: if it is not as it was read.
    """
    tags = None if request.tags is None else [*request.tags]
    values = {**request.model_dump(), "tags": tags, "id": memory.id, "version": memory.version}
    await _change_all(tx, "update", values, 1)


async def allow_categories(tx: ScopedTransaction, categories: Sequence[str] | None) -> None:
    """Limit the rest of the transaction to these categories; None: all.

    The sources of a memory that a role may read belong to any category.
    """
    listed = "" if categories is None else array_text(tuple(categories))
    await tx.execute(_SQL["allow_categories"], {"categories": listed})


async def forget(tx: ScopedTransaction, memory: "Memory | LedgerEntry") -> None:
    """Soft-delete a memory, and remove from search the source messages without another active memory.

    Raises:
        ConcurrentChangeError: if it is not as it was read.
    """
    await _change_all(tx, "forget", {"id": memory.id, "version": memory.version}, 1)


async def forget_derived(tx: ScopedTransaction, memory_id: UUID) -> None:
    """Soft-delete the unabsorbed reflections of a fact's scope key and session that rest on its messages alone.

    A reflection stays if another active fact has the same messages, since it may be about that fact.
    """
    await tx.execute(_SQL["forget_derived"], {"id": memory_id})


async def set_protection(tx: ScopedTransaction, memory_id: UUID, *, protected: bool) -> bool | None:
    """Protect a memory, or lift its protection, as an administrator.

    Returns:
        Whether the protection changed; None if there is no such active memory.
    """
    identity = tx.identity
    values = identity.agent_id, memory_id, protected, identity.actor
    ((changed,),) = await tx.call_with_head("set_protection", *values)
    return None if changed is None else bool(changed)


async def _change_all(tx: ScopedTransaction, name: str, values: Mapping[str, object], expected: int) -> None:
    """Run a statement that has to change so many memories.

    Raises:
        ConcurrentChangeError: if it changed fewer.
    """
    if len(await tx.tuples(_SQL[name], values)) != expected:
        raise ConcurrentChangeError
