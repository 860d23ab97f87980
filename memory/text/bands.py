"""Bands of similarity between two facts, and relations of a fact to its neighbours. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mnemic.memory.text.details import find_numbers
from mnemic.state.errors import ConfigurationError
from mnemic.state.formation import SimilarFact
from mnemic.state.records import Relation
from mnemic.state.settings import Settings

Band = Literal["auto", "check", "fallback", "new"]

_NOT = re.compile(r"n['’]t\b")


@dataclass(frozen=True)
class Bands:
    """Cosine similarities (0..1) at which each band begins, one set per embedder.

    Raises:
        ConfigurationError: if they do not rise from fallback over check to auto within 0..1.
    """

    #: The same fact, without a call of a model.
    auto: float = 0.95
    #: Near enough that one may replace the other.
    check: float = 0.70
    #: Related, the pair left to the daily worker.
    fallback: float = 0.55

    def __post_init__(self) -> None:
        if not 0 <= self.fallback <= self.check <= self.auto <= 1:
            raise ConfigurationError(
                f"bands must rise within 0..1, but fallback={self.fallback}, check={self.check}, auto={self.auto}"
            )


def same_fact(a: str, b: str) -> bool:
    """Return whether two close sentences differ only in closing punctuation and the spelling of numbers and `not`.

    Any other word may change the meaning, and no threshold separates these cases: of the labelled pairs
    (benchmarks/bands), "broke his left wrist" and "broke his right wrist" lie at 0.996 with MiniLM, above every
    rewording. A wrong False costs a call of a model, a wrong True a memory.
    """
    return _wording(a) == _wording(b)


def band_of_pair(new: str, old: str, similarity: float, bands: Bands) -> Band:
    """Return the band of two facts; a similarity equal to a threshold is in its band, in `auto` only for equal words.

    Equal sentences are the same fact, even if their dates separate the vectors.
    """
    if new == old:
        return "auto"
    if similarity >= bands.auto and same_fact(new, old):
        return "auto"
    if similarity >= bands.check:
        return "check"
    if similarity >= bands.fallback:
        return "fallback"
    return "new"


def nearest_relations(near: Iterable[SimilarFact], bands: Bands, settings: Settings) -> tuple[Relation, ...]:
    """Return the relations of a new fact to its nearest neighbours, strongest first."""
    min_similarity = bands.fallback
    if settings.link_min is not None:
        min_similarity = settings.link_min
    relations: list[Relation] = []
    for old in sorted(near, key=lambda old: -old.similarity)[: settings.neighbours]:
        if old.similarity >= min_similarity:
            # rounded vectors may have a cosine above 1
            relations.append(Relation(to_id=old.id, strength=min(1.0, old.similarity)))
    return tuple(relations)


def _wording(text: str) -> list[str]:
    wording: list[str] = []
    for token in _NOT.sub(" not", text).split():
        word = token.rstrip(".,;:!?…")
        # `2` for `two`; a word with a sign or digit stays, since `.5` is not `5`
        numbers = find_numbers(word) if word.isalpha() else ()
        wording.append(numbers[0] if numbers else word)
    return wording
