"""A long ledger cut into batches, so that memories which may go together stand in one of them."""

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Sequence

from mnemic.policy.text.common_words import FUNCTION_WORDS
from mnemic.policy.text.words import folded_words
from mnemic.state.refinement import LedgerEntry

#: A word that more entries hold than this, and more than this share, says little: 2,000 entries take 0.3 s without.
_MOST_HOLDERS = 50
_MOST_SHARED = 0.2


def batches(entries: Sequence[LedgerEntry], *, tokens: int) -> list[tuple[LedgerEntry, ...]]:
    """The entries in batches of at most `tokens`, similar ones together; every entry once, within a batch in order.

    One batch where all of them fit. A single longer entry stands alone. A batch begins with the first entry that is
    left and takes what shares most words with it, each weighted by how rare it is, of the same person first.
    """
    if sum(entry.tokens for entry in entries) <= tokens:
        return [tuple(entries)] if entries else []
    likeness = _Likeness([entry.content for entry in entries])
    left = dict.fromkeys(range(len(entries)))
    found: list[tuple[LedgerEntry, ...]] = []
    while left:
        places = _batch(entries, left, likeness, tokens)
        found.append(tuple(entries[place] for place in sorted(places)))
    return found


def _batch(entries: Sequence[LedgerEntry], left: dict[int, None], likeness: "_Likeness", tokens: int) -> list[int]:
    """Takes one batch out of what is left."""
    person = entries[next(iter(left))].subject_user_id
    scores: defaultdict[int, float] = defaultdict(float)
    words: set[str] = set()

    def rank(place: int) -> tuple[bool, float, int]:
        return entries[place].subject_user_id != person, -scores[place], place

    waiting = [rank(place) for place in left]
    heapq.heapify(waiting)
    taken: list[int] = []
    room = tokens
    while waiting:
        *_, place = ranked = heapq.heappop(waiting)
        fits = not taken or entries[place].tokens <= room
        if place not in left or not fits or ranked != rank(place):  # the last: it was ranked anew since
            continue
        taken.append(place)
        room -= entries[place].tokens
        del left[place]
        for alike in likeness.add(place, words, scores):
            if alike in left and entries[alike].tokens <= room:
                heapq.heappush(waiting, rank(alike))
    return taken


class _Likeness:
    """How alike each entry is to what a batch holds."""

    def __init__(self, texts: Collection[str]) -> None:
        self._words = [sorted(set(folded_words(text)) - FUNCTION_WORDS) for text in texts]
        self._holders: dict[str, list[int]] = defaultdict(list)
        for place, words in enumerate(self._words):
            for word in words:
                self._holders[word].append(place)
        # the root keeps long texts from being alike to everything
        self._sizes = [math.sqrt(max(1, len(words))) for words in self._words]

    def add(self, place: int, words: set[str], scores: defaultdict[int, float]) -> set[int]:
        """Adds to the scores what this entry's words, that were not there before, have in common; whose changed."""
        changed: set[int] = set()
        most = max(_MOST_HOLDERS, _MOST_SHARED * len(self._words))
        for word in self._words[place]:
            holders = self._holders[word]
            if word in words or not 1 < len(holders) <= most:
                continue
            words.add(word)
            rarity = math.log(len(self._words) / len(holders))
            for holder in holders:
                scores[holder] += rarity / self._sizes[holder]
            changed.update(holders)
        return changed
