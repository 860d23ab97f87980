"""What anyone could do instead, over the same rows: count words, and BM25 over stems."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from benchmarks.recall_quality.porter import stem
from mnemic.memory.text.words import word_set

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_STOP = word_set(
    """a about above after again against all am an and any are as at be because been before being below between both
    but by can could did do does doing don down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off on
    once only or other our ours ourselves out over own s same she should so some such t than that the their theirs
    them themselves then there these they this those through to too under until up very was we were what when where
    which while who whom why will with would you your yours yourself yourselves"""
)


def grep(question: str, texts: Sequence[str]) -> list[float]:
    """For each text how many of the question's words stand in it."""
    wanted = set(_words(question))
    return [float(len(wanted.intersection(_words(text)))) for text in texts]


class BM25:
    """Okapi's BM25 over Porter stems, without stop words."""

    def __init__(self, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        stems = [_stems(text) for text in texts]
        self._size = len(texts)
        mean = sum(map(len, stems)) / max(1, len(stems)) or 1.0
        self._norms = [k1 * (1 - b + b * len(found) / mean) for found in stems]
        self._k1 = k1
        self._places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, found in enumerate(stems):
            for word, times in Counter(found).items():
                self._places[word].append((place, times))

    def scores(self, question: str) -> list[float]:
        """One score for each text."""
        scores = [0.0] * self._size
        for word in set(_stems(question)):
            found = self._places.get(word, [])
            rarity = math.log(1 + (self._size - len(found) + 0.5) / (len(found) + 0.5))
            for place, times in found:
                scores[place] += rarity * times * (self._k1 + 1) / (times + self._norms[place])
        return scores


def _words(text: str) -> list[str]:
    return [word.removesuffix("'s") for word in _WORD.findall(text.lower()) if word not in _STOP]


def _stems(text: str) -> list[str]:
    return [stem(word) for word in _words(text)]
