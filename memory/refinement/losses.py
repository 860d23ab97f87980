"""Losses of a refinement: memories and distinctive words that a new text lacks, and how many a session may remove."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from mnemic.memory.text.details import find_dates, find_numbers
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import WORD, bare, folded_words, is_common_word, stem

#: Smallest share of words that a merge of many texts keeps; a text with less has another meaning.
MIN_KEPT_SHARE: Final = 0.1
#: Shorter words are not compared by their beginning.
_MIN_BEGINNING_CHARS: Final = 4
#: Shorter words are not distinctive.
_MIN_DISTINCTIVE_CHARS: Final = 3
#: Longest ending behind the common beginning of two forms of a word: calm, calming; collect, collection.
_MAX_ENDING_CHARS: Final = 3
#: Lost words with at most one other word between them are named together.
_MAX_GAP: Final = 2
_MAX_STRETCH_WORDS: Final = 8
_NUMBER = re.compile(r"\d+")
_GROUPED = re.compile(r"(?<=\d)[,.'](?=\d{3}(?!\d))")
#: Characters of scripts without spaces between words; each counts as a word.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff]")


def lost_memories(old: Sequence[str], new: str, *, about: Sequence[str] = ()) -> list[bool]:
    """Return which of the replaced texts are lost, because the new one keeps hardly any of their distinctive words.

    Each text is compared by itself, so that a long one cannot hide the loss of short ones; and all of them together, so
    that one shared word cannot keep them all. One rewritten memory must keep a third of its words, two merged ones a
    quarter, and many a tenth: of all words alike, or with names, numbers, dates and uncommon words counted twice,
    whichever is less. A text without a distinctive word, such as an emoji, is lost only if the new text is empty.

    Args:
        old: the replaced texts.
        new: the new text; empty for a deletion.
        about: names of the people in them, which are not distinctive.
    """
    if not new:
        return [True] * len(old)
    names: set[str] = set()
    for name in about:
        names.update(_weights(name))
    retained = {*_weights(new), *_digits(new)}
    min_share = max(MIN_KEPT_SHARE, 1 / (len(old) + 2))
    together: dict[str, int] = {}
    lost: list[bool] = []
    for text in old:
        weights = _without(_weights(text), names)
        together.update(weights)
        lost.append(_is_lost(weights, retained, min_share))
    if _is_lost(together, retained, min_share):
        return [True] * len(old)
    return lost


def _is_lost(weights: Mapping[str, int], retained: set[str], min_share: float) -> bool:
    here = weights.keys() & retained
    weight = sum(weights[word] for word in here)
    return weight < min_share * sum(weights.values()) and len(here) < min_share * len(weights)


def _without(weights: Mapping[str, int], names: Container[str]) -> Mapping[str, int]:
    """Return the weights of other words than names; of all words if there are only names."""
    others = {word: weight for word, weight in weights.items() if word not in names}
    return others or weights


def _weights(text: str) -> dict[str, int]:
    """Return the stems of distinctive words, and numbers and dates in one form, each with its weight."""
    dates, rest = find_dates(text)
    weights: dict[str, int] = {}
    for word in folded_words(rest):
        if word not in FUNCTION_WORDS and not _UNSPACED.search(word):
            weights[stem(word)] = 1 if is_common_word(word) else 2
    exact = [*_digits(rest), *_UNSPACED.findall(rest), *filter(str.isdecimal, find_numbers(rest))]
    for day in dates:
        exact += [stem(part.casefold()) for part in day.split()]
    return weights | dict.fromkeys(exact, 2)


def _digits(text: str) -> set[str]:
    return set(_NUMBER.findall(_GROUPED.sub("", text)))


def lost_words(
    old: Sequence[str], remaining: Iterable[str], *, among: Sequence[str], named: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return distinctive words that other texts lack in any ending, each with the words around it, rarest first.

    A word alone often looks like a filler: `make` comes from `make him calm`. Numbers and dates are left out: they may
    change their form, and are compared as details.

    Args:
        old: the texts with the words.
        remaining: all remaining texts.
        among: all memories, for the rarity of a word.
        named: words already listed as lost.
    """
    kept = _KeptWords([*remaining, *named])
    counts: Counter[str] = Counter()
    for text in among:
        counts.update({stem(word) for word in folded_words(text)})
    rarity: dict[str, int] = {}
    for text in old:
        words = [bare(word) for word in WORD.findall(find_dates(text)[1])]
        positions = [position for position, word in enumerate(words) if kept.lacks(word)]
        for first, last in _stretches(positions):
            stems: list[str] = []
            for position in positions:
                if first <= position <= last:
                    stems.append(stem(words[position].casefold()))
            if kept.add(stems):
                phrase = " ".join(words[max(0, first - 1) : last + 2])
                rarity.setdefault(phrase, min(counts[word] for word in stems))
    return tuple(sorted(rarity, key=lambda phrase: rarity[phrase]))


class _KeptWords:
    """Words of the remaining texts, by their stems and beginnings.

    Args:
        texts: the remaining texts.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._stems: set[str] = set()
        self._beginnings: set[str] = set()
        for text in texts:
            for word in folded_words(text):
                self._stems.add(stem(word))
                for length in range(_MIN_BEGINNING_CHARS, len(word) + 1):
                    self._beginnings.add(word[:length])

    def lacks(self, word: str) -> bool:
        """Return whether a word is distinctive and in no text, in any ending."""
        folded = word.casefold()
        if len(folded) < _MIN_DISTINCTIVE_CHARS or folded in FUNCTION_WORDS:
            return False
        if _UNSPACED.search(folded) or find_numbers(folded) or stem(folded) in self._stems:
            return False
        beginning = folded[: max(_MIN_BEGINNING_CHARS, len(folded) - _MAX_ENDING_CHARS)]
        return beginning not in self._beginnings

    def add(self, stems: Sequence[str]) -> bool:
        """Add the words of a phrase that is named; return False if all of them were known."""
        if self._stems.issuperset(stems):
            return False
        self._stems.update(stems)
        return True


def _stretches(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last position of adjacent words, with at most one word between, at most 8 words at once."""
    first = last = -1
    for position in positions:
        if first >= 0 and (position - last > _MAX_GAP or position - first >= _MAX_STRETCH_WORDS):
            yield first, last
            first = -1
        if first < 0:
            first = position
        last = position
    if first >= 0:
        yield first, last


def max_removals(percent: int, memories: int) -> int:
    """Return the number of memories that a session may remove without keeping their content, rounded up."""
    return -(-percent * memories // 100)
