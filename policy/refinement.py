"""What a refinement is shown at once, and what it may do to memories, so that a misled session stays within bounds."""

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from mnemic.policy.categories import Categories
from mnemic.policy.text.details import find_dates, find_numbers
from mnemic.policy.text.shape import fit
from mnemic.policy.text.words import FUNCTION_WORDS, WORD, bare, folded_words, is_common_word, stem
from mnemic.state.refinement import LedgerEntry


def batches(entries: Sequence[LedgerEntry], *, tokens: int) -> list[tuple[LedgerEntry, ...]]:
    """The entries in batches of at most `tokens`, similar ones together; every entry once, within a batch in order.

    One batch where all of them fit. A single longer entry stands alone. A batch begins with the first entry that is
    left and takes what is most like it, of the same person first: what shares the rarest words, for its length.
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
            # the root keeps long texts from being like everything
            likeness = shared / math.sqrt(max(1, len(words[place])))
            is_others = entries[place].subject_user_id != entries[first].subject_user_id
            return place != first, is_others, -likeness, place

        first, *others = sorted(left, key=rank)
        fitting = fit(others, tokens=lambda place: entries[place].tokens, budget=tokens - entries[first].tokens)
        taken = {first, *fitting}
        found.append(tuple(entries[place] for place in sorted(taken)))
        left = [place for place in left if place not in taken]
    return found


#: A law may say in a tenth of the words what its many cases said; what keeps less says something else.
LEAST_KEPT: Final = 0.1
#: Shorter words are not told by their beginning.
_LEAST_CHARS: Final = 4
#: Shorter ones tell nothing; what follows the beginning of a word is its ending: calm, calming; collect, collection.
_LEAST_TELLING: Final = 3
#: Lost words with one other word between them are named together, but for so many words at most.
_GAP: Final = 2
_LONGEST_STRETCH: Final = 8
_LONGEST_ENDING: Final = 3
_NUMBER = re.compile(r"\d+")
_GROUPED = re.compile(r"(?<=\d)[,.'](?=\d{3}(?!\d))")
#: Characters of scripts that put no spaces between words; each tells something of its own.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff]")


def lost_memories(old: Sequence[str], new: str, *, about: Sequence[str] = ()) -> list[bool]:
    """Which of the texts that a new one replaces are lost, because it keeps hardly any of their telling words.

    Each is compared by itself, so that a long one does not stand in for short ones; and all of them together, so that
    one word which they share does not stand in for them: where it keeps too little of that, all are lost. One memory
    rewritten keeps a third of its words, two merged a quarter, and many a tenth, whichever is less: of all words alike,
    or with names, numbers, dates and uncommon words counted twice, as a text in fewer words keeps those. One without a
    telling word, such as an emoji, is kept by any text, and lost where there is none.

    Args:
        old: the texts that it replaces.
        new: the text; empty where they are deleted.
        about: names of the people whom they are about; a name tells nothing of its bearer.
    """
    if not new:
        return [True] * len(old)
    names = set().union(*map(_telling, about))
    telling = [{word: w for word, w in words.items() if word not in names} or words for words in map(_telling, old)]
    kept, share = {*_telling(new), *_digits(new)}, max(LEAST_KEPT, 1 / (len(old) + 2))

    def is_lost(words: Mapping[str, int]) -> bool:
        here = words.keys() & kept
        weights = sum(words[word] for word in here) < share * sum(words.values())
        return bool(words) and weights and len(here) < share * len(words)

    if is_lost(dict(item for words in telling for item in words.items())):
        return [True] * len(old)
    return [is_lost(words) for words in telling]


def _telling(text: str) -> dict[str, int]:
    """The stems of the words that tell something, numbers and dates in one form; each with how much it counts."""
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
    """Telling words of some texts that no other text says, in any ending, each with the words around it.

    A word by itself looks like a filler more often than it is one: `make` comes from `make him calm`. The rarest come
    first. Numbers and dates are none: they may change their form, and are compared as details.

    Args:
        old: the texts that had them.
        said: all that is still said.
        among: all memories, by which it is told what is rare.
        named: what is known to be lost.
    """
    words = {word for text in (*said, *named) for word in folded_words(text)}
    known = {stem(word) for word in words}
    beginnings = {word[:length] for word in words for length in range(_LEAST_CHARS, len(word) + 1)}
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
    if len(folded) < _LEAST_TELLING or folded in FUNCTION_WORDS or _UNSPACED.search(folded) or find_numbers(folded):
        return False
    return stem(folded) not in known and folded[: max(_LEAST_CHARS, len(folded) - _LONGEST_ENDING)] not in beginnings


def _stretches(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last place of what stands together, with at most one word between, in stretches of at most 8 words."""
    first = last = -1
    for place in places:
        if first >= 0 and (place - last > _GAP or place - first >= _LONGEST_STRETCH):
            yield first, last
            first = -1
        first, last = (place if first < 0 else first), place
    if first >= 0:
        yield first, last


def removable(percent: int, memories: int) -> int:
    """How many of so many memories a session may remove without keeping them elsewhere, rounded up."""
    return -(-percent * memories // 100)


def merged_category(names: Sequence[str], categories: Categories) -> str:
    """The category of a memory made of others: of theirs the one that the fewest roles read, then the most frequent."""

    def rank(name: str) -> tuple[int, int, int]:
        readers = sum(name in allowlist.categories for allowlist in categories.allowlists.values())
        return readers, -names.count(name), names.index(name)

    return min(dict.fromkeys(names), key=rank)
