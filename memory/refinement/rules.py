"""Bounds of a refinement: the memories of one batch, and the losses that a session may cause."""

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from mnemic.memory.runtime.categories import Categories
from mnemic.memory.text.details import find_dates, find_numbers
from mnemic.memory.text.shape import fit
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import WORD, bare, folded_words, is_common_word, stem
from mnemic.state.refinement import LedgerEntry


def batches(entries: Sequence[LedgerEntry], *, tokens: int) -> list[tuple[LedgerEntry, ...]]:
    """Cut the entries into batches of at most `tokens`, similar ones together; each batch keeps their order.

    A longer entry is a batch of its own. A batch begins with the first entry left, and takes the most similar ones, of
    the same person first. Entries are similar if they share rare words, relative to their length.
    """
    words = [frozenset(folded_words(entry.content)) - FUNCTION_WORDS for entry in entries]
    holders = Counter(word for held in words for word in held)
    rarity = {word: math.log(len(entries) / count) for word, count in holders.items()}
    left = list(range(len(entries)))
    found: list[tuple[LedgerEntry, ...]] = []
    while left:
        if sum(entries[place].tokens for place in left) <= tokens:
            return [*found, tuple(entries[place] for place in left)]
        first = left[0]

        def rank(place: int, first: int = first) -> tuple[bool, bool, float, int]:
            shared = sum(rarity[word] for word in words[first] & words[place])
            # the root keeps long texts from being similar to everything
            likeness = shared / math.sqrt(max(1, len(words[place])))
            is_others = entries[place].subject_user_id != entries[first].subject_user_id
            return place != first, is_others, -likeness, place

        first, *others = sorted(left, key=rank)
        fitting = fit(others, tokens=lambda place: entries[place].tokens, budget=tokens - entries[first].tokens)
        taken = {first, *fitting}
        found.append(tuple(entries[place] for place in sorted(taken)))
        left = [place for place in left if place not in taken]
    return found


#: Smallest share of words that a merge of many texts keeps; a text with less has another meaning.
MIN_KEPT: Final = 0.1
#: Shorter words are not compared by their beginning.
_MIN_CHARS: Final = 4
#: Shorter words are not distinctive. The rest of a word behind its beginning is its ending: calm, calming; collect,
#: collection.
_MIN_TELLING: Final = 3
#: Lost words with at most one other word between them are named together.
_GAP: Final = 2
_MAX_STRETCH_LENGTH: Final = 8
_MAX_ENDING_LENGTH: Final = 3
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
    names = set().union(*map(_telling, about))
    telling = [{word: w for word, w in words.items() if word not in names} or words for words in map(_telling, old)]
    kept, share = {*_telling(new), *_digits(new)}, max(MIN_KEPT, 1 / (len(old) + 2))

    def is_lost(words: Mapping[str, int]) -> bool:
        here = words.keys() & kept
        weights = sum(words[word] for word in here) < share * sum(words.values())
        return bool(words) and weights and len(here) < share * len(words)

    if is_lost(dict(item for words in telling for item in words.items())):
        return [True] * len(old)
    return [is_lost(words) for words in telling]


def _telling(text: str) -> dict[str, int]:
    """Return the stems of distinctive words, and numbers and dates in one form, each with its weight."""
    dates, rest = find_dates(text)
    said = [word for word in folded_words(rest) if word not in FUNCTION_WORDS and not _UNSPACED.search(word)]
    numbers = _digits(rest) | {number for number in find_numbers(rest) if number.isdecimal()}
    exact = [*numbers, *(stem(part.casefold()) for day in dates for part in day.split()), *_UNSPACED.findall(rest)]
    return {stem(word): 1 if is_common_word(word) else 2 for word in said} | dict.fromkeys(exact, 2)


def _digits(text: str) -> set[str]:
    return set(_NUMBER.findall(_GROUPED.sub("", text)))


def lost_words(
    old: Sequence[str], said: Iterable[str], *, among: Sequence[str], named: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return distinctive words that other texts lack in any ending, each with the words around it, rarest first.

    A word alone often looks like a filler: `make` comes from `make him calm`. Numbers and dates are left out: they may
    change their form, and are compared as details.

    Args:
        old: the texts with the words.
        said: all remaining texts.
        among: all memories, for the rarity of a word.
        named: words already listed as lost.
    """
    words = {word for text in (*said, *named) for word in folded_words(text)}
    known = {stem(word) for word in words}
    beginnings = {word[:length] for word in words for length in range(_MIN_CHARS, len(word) + 1)}
    having = Counter(word for text in among for word in {*map(stem, folded_words(text))})
    lost: dict[str, int] = {}
    for text in old:
        said_there = [bare(word) for word in WORD.findall(find_dates(text)[1])]
        places = [place for place, word in enumerate(said_there) if _is_lost(word, known, beginnings)]
        for first, last in _stretches(places):
            stems = [stem(said_there[place].casefold()) for place in places if first <= place <= last]
            if not known.issuperset(stems):
                known.update(stems)
                phrase = " ".join(said_there[max(0, first - 1) : last + 2])
                lost.setdefault(phrase, min(having[word] for word in stems))
    return tuple(sorted(lost, key=lambda phrase: lost[phrase]))


def _is_lost(word: str, known: Container[str], beginnings: Container[str]) -> bool:
    folded = word.casefold()
    if len(folded) < _MIN_TELLING or folded in FUNCTION_WORDS or _UNSPACED.search(folded) or find_numbers(folded):
        return False
    return stem(folded) not in known and folded[: max(_MIN_CHARS, len(folded) - _MAX_ENDING_LENGTH)] not in beginnings


def _stretches(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last place of adjacent words, with at most one word between, in stretches of at most 8 words."""
    first = last = -1
    for place in places:
        if first >= 0 and (place - last > _GAP or place - first >= _MAX_STRETCH_LENGTH):
            yield first, last
            first = -1
        first, last = (place if first < 0 else first), place
    if first >= 0:
        yield first, last


def removable(percent: int, memories: int) -> int:
    """Return the number of memories that a session may remove without keeping their content, rounded up."""
    return -(-percent * memories // 100)


def merged_category(names: Sequence[str], categories: Categories) -> str:
    """Return the category of a merged memory: the one that the fewest roles read, then the most frequent one."""

    def rank(name: str) -> tuple[int, int, int]:
        readers = sum(name in allowlist.categories for allowlist in categories.allowlists.values())
        return readers, -names.count(name), names.index(name)

    return min(dict.fromkeys(names), key=rank)
