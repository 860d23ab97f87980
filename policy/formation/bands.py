"""Which similarity of two facts means what."""

import re
from dataclasses import dataclass
from typing import Literal

from mnemic.policy.text.details import find_numbers
from mnemic.state.errors import ConfigurationError

Band = Literal["auto", "check", "fallback", "new"]

_NOT = re.compile(r"n['’]t\b")


@dataclass(frozen=True)
class Bands:
    """Cosine similarities (0..1) from which a band begins; each embedder has its own, the defaults are the seeds'.

    Raises:
        ConfigurationError: they do not rise from fallback over check to auto within 0..1.
    """

    #: The same fact, no model asked.
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
    """Whether two close sentences are one but for closing punctuation and how small numbers and `not` are written.

    Any other word may turn a fact round, and no threshold tells: of the labelled pairs (benchmarks/bands), "broke his
    left wrist" and "broke his right wrist" lie at 0.996 with MiniLM, above every rewording. A wrong no costs a model's
    answer, a wrong yes a memory.
    """
    return _wording(a) == _wording(b)


def band_of_pair(new: str, old: str, similarity: float, bands: Bands) -> Band:
    """The band of two facts; a threshold fires when it is reached, that of `auto` for the same words alone.

    The same sentence is the same fact, however far its date takes the vectors apart.
    """
    if new == old:
        return "auto"
    if similarity >= bands.check:
        return "auto" if similarity >= bands.auto and same_fact(new, old) else "check"
    return "fallback" if similarity >= bands.fallback else "new"


def _wording(text: str) -> list[str]:
    tokens = _NOT.sub(" not", text).split()
    plain = [token.rstrip(".,;:!?…") for token in tokens]
    # `2` for `two`; what holds a sign or digit stays, for `.5` is not `5`
    return [((token.isalpha() and find_numbers(token)) or (token,))[0] for token in plain]
