"""Pairs of similar facts: a maintenance run finds them, merges or links them, and records them as judged."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from mnemic.memory.text.bands import Bands
from mnemic.state.background import FactPair
from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.records import Memory, Relation
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction, first_column, load_statements

_SQL = load_statements("pairs")
#: Similar facts that are looked at for each candidate.
_NEIGHBOURS: Final = 20
#: Comparisons of two vectors that one call makes at most: 2 to 7 seconds. A larger scope key has fewer candidates.
_MAX_COMPARISONS: Final = 1_000_000
#: Pairs that one call returns at most; the rules that follow leave out some of them.
_MAX_PAIRS: Final = 1000


async def list_scope_keys(database: Database, agent_id: str, after: str, settings: Settings, limit: int) -> list[str]:
    """Return the agent's scope keys with several comparable facts, in order, behind a scope key."""
    values = {"agent_id": agent_id, "days": settings.pair_updated_days, "after": after, "most": limit}
    async with database.catalog() as connection:
        cursor = await connection.execute(
            "select scope_key from paired_scope_keys(%(agent_id)s, %(days)s, %(after)s, %(most)s)", values
        )
        return first_column(await cursor.fetchall())


async def find(tx: ScopedTransaction, key: str, model: str, bands: Bands, settings: Settings) -> list[FactPair]:
    """Return the pairs of similar facts of a scope key that were not judged lately, the most similar first.

    Args:
        tx: of the scope key's owner.
        key: the scope key.
        model: name of the embedder.
        bands: of the embedder.
        settings: of the candidates, their ages and the band.
    """
    values = {
        "scope_key": key,
        "model": model,
        "least": bands.fallback,
        "below": bands.check if settings.pair_band == "fallback" else None,
        "updated_days": settings.pair_updated_days,
        "changed_hours": settings.pair_changed_hours,
        "importance": settings.pair_importance,
        "use_percent": settings.pair_use_percent,
        "candidates": settings.pair_candidates,
        "comparisons": _MAX_COMPARISONS,
        "rest_days": settings.pair_rest_days,
        "neighbours": _NEIGHBOURS,
        "most": _MAX_PAIRS,
    }
    rows = await tx.tuples(_SQL["find"], values)
    ids: set[UUID] = set()
    for _, earlier_id, later_id, *_ in rows:
        ids |= {earlier_id, later_id}
    facts: dict[UUID, Memory] = {}
    for fact in await tx.rows(Memory, _SQL["of_ids"], {"ids": list(ids), "all_sessions": True}):
        facts[fact.id] = fact
    pairs: list[FactPair] = []
    for fingerprint, earlier_id, later_id, similarity, is_linked in rows:
        pairs.append(FactPair(fingerprint, facts[earlier_id], facts[later_id], similarity, is_linked))
    return pairs


async def require_unchanged(tx: ScopedTransaction, pair: FactPair) -> None:
    """Check that both facts are as they were read.

    Raises:
        ConcurrentChangeError: if one of them was changed, closed or protected since.
    """
    values = {"ids": list(pair.ids), "versions": [pair.earlier.version, pair.later.version]}
    if len(await tx.tuples(_SQL["unchanged"], values)) != len(pair.ids):
        raise ConcurrentChangeError


async def read_sources(tx: ScopedTransaction, ids: Sequence[UUID]) -> tuple[UUID, ...]:
    """Return the ids of the messages that these facts rest on."""
    return tuple(first_column(await tx.tuples(_SQL["sources"], {"ids": list(ids)})))


async def read_neighbours(tx: ScopedTransaction, ids: Sequence[UUID], limit: int) -> list[Relation]:
    """Return relations to the memories that are related to these facts, the strongest first."""
    rows = await tx.tuples(_SQL["neighbours"], {"ids": list(ids), "most": limit})
    return [Relation(to_id=to_id, strength=strength) for to_id, strength in rows]


async def relate(tx: ScopedTransaction, from_id: UUID, relation: Relation) -> None:
    """Store a relation of a fact, unless there is the same one."""
    values = {"from_id": from_id, "to_id": relation.to_id, "strength": relation.strength}
    await tx.execute(_SQL["relate"], {**values, "relation_type": relation.relation_type})


async def pin(tx: ScopedTransaction, fact_id: UUID) -> None:
    """Pin a fact."""
    await tx.execute(_SQL["pin"], {"id": fact_id})


async def checked_today(tx: ScopedTransaction, key: str) -> int:
    """Return the number of pairs of a scope key that were judged since midnight (UTC)."""
    ((count,),) = await tx.tuples(_SQL["checked_today"], {"scope_key": key})
    return int(count)


async def note_checked(tx: ScopedTransaction, key: str, pairs: Sequence[FactPair]) -> None:
    """Record pairs as judged."""
    values: dict[str, list[Any]] = {"fingerprints": [], "earlier_ids": [], "later_ids": []}
    for pair in pairs:
        values["fingerprints"].append(pair.fingerprint)
        values["earlier_ids"].append(pair.earlier.id)
        values["later_ids"].append(pair.later.id)
    await tx.execute(_SQL["note_checked"], {"scope_key": key, **values})


async def prune(tx: ScopedTransaction, rest_days: int) -> None:
    """Delete the agent's records of pairs that may be judged again."""
    await tx.execute(_SQL["prune"], {"rest_days": rest_days})
