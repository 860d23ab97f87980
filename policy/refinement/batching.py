"""A long ledger cut into batches, so that memories which may go together stand in one of them."""

import math
from collections import Counter
from collections.abc import Sequence

from mnemic.policy.text.common_words import FUNCTION_WORDS
from mnemic.policy.text.words import folded_words
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

        taken = _fitting(entries, sorted(left, key=rank), tokens)
        found.append(tuple(entries[place] for place in sorted(taken)))
        left = [place for place in left if place not in taken]
    return found


def _fitting(entries: Sequence[LedgerEntry], ranked: Sequence[int], tokens: int) -> set[int]:
    """The first, however long, and of the others those that fit beside it, best first."""
    taken, room = {ranked[0]}, tokens - entries[ranked[0]].tokens
    for place in ranked[1:]:
        if entries[place].tokens <= room:
            taken.add(place)
            room -= entries[place].tokens
    return taken
