"""Similarities of the pairs, the errors that bands make on them, and the bands that a fixed rule proposes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul

from benchmarks.bands.pairs import DECIDED, Label, Pair
from mnemic.memory.text.bands import Bands, band_of_pair
from mnemic.models.embedders import Embedder

#: Of `same` and of `update` pairs each, the share that must reach a band. A missed contradiction leaves two facts
#: current; a pair too many is one more line in a call that is made anyway.
CHECK_KEEPS = 0.98
FALLBACK_KEEPS = 0.99
#: `auto` is not looked for below the figure of the design, even if no pair there goes wrong.
MIN_AUTO = 0.95


@dataclass(frozen=True)
class Measured:
    """A pair and the cosine of its two texts."""

    pair: Pair
    similarity: float


@dataclass(frozen=True, kw_only=True)
class Errors:
    """What bands do wrong on some pairs: counts, and of how many."""

    #: `same` pairs below check: a duplicate is stored and no one asks.
    duplicates: int
    same: int
    #: `update` pairs below check: two facts stay current that contradict each other.
    missed: int
    update: int
    #: The same below fallback: not even the daily worker looks at them.
    lost: int
    #: `related` and `unrelated` pairs from check on: shown to the model for nothing.
    needless: int
    others: int
    #: Pairs dropped without a question that are not `same`.
    wrong_autos: int
    #: `same` pairs dropped without a question.
    autos: int


async def measure(embedder: Embedder, pairs: Sequence[Pair]) -> list[Measured]:
    """Embeds every pair."""
    vectors = await embedder.embed([text for pair in pairs for text in (pair.old, pair.new)])
    cosines = [sum(map(mul, old, new)) for old, new in zip(vectors[::2], vectors[1::2], strict=True)]
    return [Measured(pair, cosine) for pair, cosine in zip(pairs, cosines, strict=True)]


def of_label(measured: Sequence[Measured], *labels: Label) -> list[Measured]:
    """Those of the labels."""
    return [one for one in measured if one.pair.label in labels]


def share_from(measured: Sequence[Measured], threshold: float) -> float:
    """Share of the pairs that lie at the threshold or above (0..1)."""
    return sum(one.similarity >= threshold for one in measured) / len(measured) if measured else 0.0


def errors(measured: Sequence[Measured], bands: Bands) -> Errors:
    """Count the wrong decisions of the bands on the pairs."""
    same, update = of_label(measured, "same"), of_label(measured, "update")
    others = of_label(measured, "related", "unrelated")
    return Errors(
        duplicates=sum(one.similarity < bands.check for one in same),
        same=len(same),
        missed=sum(one.similarity < bands.check for one in update),
        update=len(update),
        lost=sum(one.similarity < bands.fallback for one in (*same, *update)),
        needless=sum(one.similarity >= bands.check for one in others),
        others=len(others),
        wrong_autos=sum(_is_auto(one, bands) for one in (*update, *others)),
        autos=sum(_is_auto(one, bands) for one in same),
    )


def propose(measured: Sequence[Measured]) -> Bands:
    """Return the highest check and fallback that keep their shares of both labels, and the lowest safe auto.

    Raises:
        ConfigurationError: no bands rise with these pairs.
    """
    decided = [of_label(measured, label) for label in DECIDED]
    check = _highest(lambda limit: min(share_from(pairs, limit) for pairs in decided) >= CHECK_KEEPS)
    fallback = _highest(lambda limit: min(share_from(pairs, limit) for pairs in decided) >= FALLBACK_KEEPS)
    auto = _lowest(
        lambda limit: errors(measured, Bands(auto=limit, check=min(check, limit), fallback=0)).wrong_autos == 0
    )
    return Bands(auto=auto, check=check, fallback=min(fallback, check))


def _is_auto(one: Measured, bands: Bands) -> bool:
    old, new = one.pair.contents
    return band_of_pair(new, old, one.similarity, bands) == "auto"


def _highest(fits: Callable[[float], bool]) -> float:
    return next((place / 100 for place in range(100, 0, -1) if fits(place / 100)), 0.0)


def _lowest(fits: Callable[[float], bool]) -> float:
    return next((place / 100 for place in range(round(MIN_AUTO * 100), 100) if fits(place / 100)), 1.0)
