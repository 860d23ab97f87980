"""What lies near new facts: what they repeat, what they are related to, and what a decision is needed on. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import mul
from uuid import UUID

from mnemic.operations.formation.selection import repeat
from mnemic.policy.formation.bands import Band, Bands, band_of_pair
from mnemic.state.formation import Neighbour, Repeat, SimilarFact
from mnemic.state.records import NewMemory, Relation
from mnemic.state.settings import Settings


@dataclass
class ComparedFacts:
    """Facts that are not known yet, what lies so near that a decision is needed, and what the others repeat."""

    fresh: list[NewMemory] = field(default_factory=list)
    neighbours: list[Neighbour] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)


def compare_facts(
    facts: Sequence[NewMemory],
    vectors: Sequence[Sequence[float]],
    stored: Sequence[SimilarFact],
    bands: Bands,
    settings: Settings,
) -> ComparedFacts:
    """Compares the facts of a batch, in the order they were said, with those that are stored and with one another.

    Args:
        facts: the new ones.
        vectors: theirs, of length 1.
        stored: what is known near each.
        bands: of the embedder.
        settings: how many relations a fact gets, and from which similarity on.
    """
    result = ComparedFacts()
    known = [*stored, *_within_batch(facts, vectors)]
    dropped: set[UUID] = set()
    for place, fact in enumerate(facts):
        near = [(band_of_fact(fact.content, old, bands), old) for old in known if old.place == place]
        if same := [old for band, old in near if band == "auto"]:
            # said anew after all: what came before it in this batch does not close it
            ids = {old.id for old in same}
            result.neighbours = [row for row in result.neighbours if row.fact.id not in ids]
            dropped.add(fact.id)
            result.repeats += [repeat(fact, old.id, is_stored=old.is_stored) for old in same]
            continue
        beside = [old for _, old in near if old.id not in dropped]
        result.fresh.append(replace(fact, relations=related(beside, bands, settings)))
        result.neighbours += [
            Neighbour(new_id=fact.id, fact=old) for band, old in near if band == "check" and not old.protected
        ]
    result.neighbours = [row for row in result.neighbours if row.fact.id not in dropped]
    return result


def band_of_fact(content: str, old: SimilarFact, bands: Bands) -> Band:
    """The same sentence is the same fact, however far its date takes the vectors apart."""
    if content == old.content:
        return "auto"
    return band_of_pair(content, old.content, old.similarity, bands)


def related(near: Iterable[SimilarFact], bands: Bands, settings: Settings) -> tuple[Relation, ...]:
    """Relations of a new fact to its nearest neighbours, strongest first."""
    least = bands.fallback if settings.link_min is None else settings.link_min
    strong = [old for old in near if old.similarity >= least]
    nearest = sorted(strong, key=lambda old: -old.similarity)[: settings.neighbours]
    # of rounded vectors a cosine may come out above 1
    return tuple(Relation(to_id=old.id, strength=min(1.0, old.similarity)) for old in nearest)


def _within_batch(facts: Sequence[NewMemory], vectors: Sequence[Sequence[float]]) -> list[SimilarFact]:
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
