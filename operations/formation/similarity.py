"""How near a new fact is to those that are known, and which of them it is related to. Pure."""

from collections.abc import Iterable

from mnemic.policy.formation.bands import Band, Bands, band_of_pair
from mnemic.state.records import Relation, SimilarFact
from mnemic.state.settings import Settings


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
