"""Which similarity of two facts means what."""

from dataclasses import dataclass
from typing import Literal

from mnemic.policy.details import details
from mnemic.policy.words import folded_words
from mnemic.state.errors import ConfigurationError

Band = Literal["auto", "check", "fallback", "new"]


@dataclass(frozen=True)
class Bands:
    """Cosine similarities (0..1) from which a band begins; each embedder has its own, the defaults are the seeds'.

    Raises:
        ConfigurationError: they do not rise from fallback over check to auto within 0..1.
    """

    #: The same fact, no model asked.
    auto: float = 0.95
    #: A model decides.
    check: float = 0.70
    #: Added, the pair left to the daily worker.
    fallback: float = 0.55

    def __post_init__(self) -> None:
        if not 0 <= self.fallback <= self.check <= self.auto <= 1:
            raise ConfigurationError(
                f"bands must rise within 0..1, but fallback={self.fallback}, check={self.check}, auto={self.auto}"
            )


def band_of(similarity: float, bands: Bands) -> Band:
    """The band of a similarity; a threshold fires when it is reached."""
    if similarity >= bands.auto:
        return "auto"
    if similarity >= bands.check:
        return "check"
    return "fallback" if similarity >= bands.fallback else "new"


def same_fact(a: str, b: str) -> bool:
    """Whether nothing that embeddings overlook tells two close sentences apart.

    Numbers, dates, names, quoted words and negation must agree, and in the same order: "allergic" and "not allergic"
    lie at 0.97, and "Ana is Liv's mother" is not "Liv is Ana's mother". The same words in another order ("prefers tea
    to coffee", "prefers coffee to tea") do not agree either. A wrong no costs a model's answer, a wrong yes a memory.
    """
    left, right = folded_words(a), folded_words(b)
    if left != right and sorted(left) == sorted(right):
        return False
    return _comparable(a) == _comparable(b)


def band_of_pair(new: str, old: str, similarity: float, bands: Bands) -> Band:
    """The band of two facts: `auto` only when their details agree, else `check`."""
    band = band_of(similarity, bands)
    return "check" if band == "auto" and not same_fact(new, old) else band


def _comparable(text: str) -> tuple[object, ...]:
    found = details(text)
    names = tuple(name.casefold() for name in found.names)
    return names, found.numbers, found.dates, found.quoted, found.negated
