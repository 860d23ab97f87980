"""Formation: what is already known near each new fact. One embedding batch, one query."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import mul
from typing import Any
from uuid import UUID

from langgraph.runtime import Runtime

from mnemic.models.embedders import Vector
from mnemic.operations.formation.repeats import repeats
from mnemic.operations.formation.similarity import band_of_fact, related
from mnemic.operations.messages.speakers import speakers
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.node_types import FormationNode
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.serialization import from_plain, to_plain
from mnemic.policy.formation.bands import Bands
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import Message, NewMemory, SimilarFact
from mnemic.state.settings import Settings
from mnemic.storage import memories


def find_similar(provide: Provider) -> FormationNode:
    """Drops new facts that are known word for word, relates the others, and gathers what a decision is needed on.

    The facts of one batch are compared with one another, too: who corrects themselves does so in the same breath.
    """

    async def find_similar(state: FormationState, runtime: Runtime[Identity]) -> FormationState:
        resources = await provide()
        identity = identity_of(runtime)
        facts = from_plain(NewMemory, state["facts"])
        vectors = await resources.embedder.embed([fact.search_text for fact in facts])
        keys = [scope_key("user", user) for user in speakers(from_plain(Message, state["batch"]))]
        async with resources.database.scoped(identity, also=keys) as scoped:
            stored = await memories.similar(
                scoped,
                [fact.scope_key for fact in facts],
                vectors,
                model=resources.embedder.name,
                most=resources.settings.neighbours,
            )
        # in a thread: 25 facts, each compared with all before it, take 20 ms
        sorted_out = await asyncio.to_thread(
            _sort_out, facts, vectors, stored, resources.embedder.bands, resources.settings
        )
        fresh = {str(fact.id) for fact in sorted_out.fresh}
        return {
            "facts": to_plain(NewMemory, sorted_out.fresh),
            "repeated": len(facts) - len(fresh),
            "repeats": sorted_out.repeats,
            "vectors": {str(fact.id): list(v) for fact, v in zip(facts, vectors, strict=True) if str(fact.id) in fresh},
            "neighbours": [row for row in sorted_out.neighbours if row["stored"] or row["memory_id"] in fresh],
        }

    return find_similar


@dataclass
class _SortedOut:
    """Facts that are not known yet, and what lies so near that a decision is needed."""

    fresh: list[NewMemory] = field(default_factory=list)
    neighbours: list[dict[str, Any]] = field(default_factory=list)
    #: What the others repeat.
    repeats: list[dict[str, Any]] = field(default_factory=list)


def _sort_out(
    facts: Sequence[NewMemory],
    vectors: Sequence[Vector],
    stored: Sequence[SimilarFact],
    bands: Bands,
    settings: Settings,
) -> _SortedOut:
    found = _SortedOut()
    known = [*stored, *_within_batch(facts, vectors)]
    dropped: set[UUID] = set()
    for place, fact in enumerate(facts):
        near = [(band_of_fact(fact.content, old, bands), old) for old in known if old.place == place]
        if same := {str(old.id) for band, old in near if band == "auto"}:
            # said anew after all: what came before it in this batch does not close it
            found.neighbours = [row for row in found.neighbours if row["memory_id"] not in same]
            dropped.add(fact.id)
            found.repeats += repeats(fact, [(old.id, old.version > 0) for band, old in near if band == "auto"])
            continue
        beside = [old for _, old in near if old.id not in dropped]
        found.fresh.append(replace(fact, relations=related(beside, bands, settings)))
        found.neighbours += [_neighbour(fact, old) for band, old in near if band == "check" and not old.protected]
    return found


def _within_batch(facts: Sequence[NewMemory], vectors: Sequence[Vector]) -> list[SimilarFact]:
    return [
        SimilarFact(
            place=later,
            id=facts[earlier].id,
            version=0,
            content=facts[earlier].content,
            dated=facts[earlier].valid_from,
            protected=False,
            private=facts[earlier].private,
            importance=facts[earlier].importance,
            similarity=sum(map(mul, vectors[earlier], vectors[later])),
        )
        for later in range(len(facts))
        for earlier in range(later)
        if facts[earlier].scope_key == facts[later].scope_key
    ]


def _neighbour(fact: NewMemory, old: SimilarFact) -> dict[str, Any]:
    """version 0 marks a fact of the same batch, which is stored as version 1 just before it is closed."""
    return {
        "fact_id": str(fact.id),
        "memory_id": str(old.id),
        "stored": old.version > 0,
        "version": max(old.version, 1),
        "content": old.content,
        "private": old.private,
        "importance": old.importance,
        "dated": old.dated.isoformat(),
        "similarity": old.similarity,
    }
