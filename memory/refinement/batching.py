"""Batches of a refinement: memories that the model sees at once, similar ones together."""

import math
from collections import Counter
from collections.abc import Sequence

from mnemic.memory.text.shape import fit
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import folded_words
from mnemic.state.refinement import LedgerEntry


def batches(entries: Sequence[LedgerEntry], *, max_tokens: int) -> list[tuple[LedgerEntry, ...]]:
    """Cut the entries into batches of at most `max_tokens`, similar ones together; each batch keeps their order.

    A longer entry is a batch of its own. A batch begins with the first entry that is left, and takes the most similar
    ones, of the same person first. Entries are similar if they share rare words, relative to their length.
    """
    likeness = _Likeness(entries)
    left = list(range(len(entries)))
    cut: list[tuple[LedgerEntry, ...]] = []
    while left:
        taken = left
        if sum(entries[position].tokens for position in left) > max_tokens:
            taken = _next_batch(left, likeness, max_tokens)
        cut.append(tuple(entries[position] for position in taken))
        left = sorted(set(left) - set(taken))
    return cut


def _next_batch(left: Sequence[int], likeness: "_Likeness", max_tokens: int) -> list[int]:
    """Return the positions of the next batch, in order."""
    entries, first = likeness.entries, left[0]
    others = sorted(left[1:], key=lambda position: likeness.rank(first, position))
    budget = max_tokens - entries[first].tokens
    fitting = fit(others, tokens=lambda position: entries[position].tokens, budget=budget)
    return sorted({first, *fitting})


class _Likeness:
    """Similarity of entries by their words.

    Args:
        entries: all entries, for the rarity of a word.
    """

    def __init__(self, entries: Sequence[LedgerEntry]) -> None:
        self.entries = entries
        self._words = [frozenset(folded_words(entry.content)) - FUNCTION_WORDS for entry in entries]
        counts: Counter[str] = Counter()
        for words in self._words:
            counts.update(words)
        self._rarity = {word: math.log(len(entries) / count) for word, count in counts.items()}

    def rank(self, first: int, position: int) -> tuple[bool, float, int]:
        """Return the rank of an entry for the batch of the first one, by their positions: the lowest comes first."""
        shared = sum(self._rarity[word] for word in self._words[first] & self._words[position])
        # the root keeps long texts from being similar to everything
        similarity = shared / math.sqrt(max(1, len(self._words[position])))
        is_others = self.entries[position].subject_user_id != self.entries[first].subject_user_id
        return is_others, -similarity, position
