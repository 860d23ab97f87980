"""The step `write_consolidation` without a model: sentences are kept, replaced or left out whole, none is invented."""

import re
from dataclasses import dataclass

from mnemic.models.offline.compare import relation
from mnemic.models.offline.frames import analysed
from mnemic.models.offline.prose import split_sentences
from mnemic.models.offline.regards import plain
from mnemic.policy.text.hygiene import MAX_TEXT_BYTES
from mnemic.prompts.write_consolidation import WriteConsolidationInput, WriteConsolidationOutput

#: Health, and what somebody asked for or agreed on, go last when words must go.
_VITAL = re.compile(
    r"\b(?:allerg\w+|intoleran\w+|diagnosed|diabet\w+|asthma\w*|never|always|can't|must|wants|agreed|vegetarian|vegan|medication)\b",
    re.IGNORECASE,
)
_DETAIL = re.compile(r"\d|(?<=[a-z,;] )[A-Z]")


@dataclass(frozen=True)
class _Kept:
    """A sentence of the new text."""

    text: str
    #: 0 for the oldest.
    age: int

    @property
    def weight(self) -> tuple[int, int, int]:
        """Vital ones last, then those with names and numbers, then the newer."""
        return bool(_VITAL.search(self.text)), min(len(_DETAIL.findall(self.text)), 2), self.age


def write_consolidation(given: WriteConsolidationInput) -> WriteConsolidationOutput:
    """The current text and the new reflections in one, grouped by whom they are about, within the word limit.

    A guide for plans is told as the statement in it. Repetitions go, a newer sentence takes the place of an older one
    that it contradicts or details. Over the limit the least important whole sentences go first. A revision changes
    nothing: the limits hold from the start.
    """
    sentences = [*split_sentences(given.current)]
    for reflection in given.reflections:
        sentences += split_sentences(plain(reflection.content))
    kept = _within(_current(sentences), given.word_limit)
    return WriteConsolidationOutput(text=" ".join(sentence.text for sentence in _grouped(kept)))


def _current(sentences: list[str]) -> list[_Kept]:
    kept: list[_Kept] = []
    for age, text in enumerate(sentences):
        relations = [relation(text, old.text) for old in kept]
        if "repeats" in relations:
            continue
        kept = [old for old, how in zip(kept, relations, strict=True) if how == "differs"]
        kept.append(_Kept(text, age))
    return kept


def _within(kept: list[_Kept], word_limit: int) -> list[_Kept]:
    """What fits, chosen by weight, in the order it stood."""
    words = bytes_ = 0
    chosen: list[_Kept] = []
    for sentence in sorted(kept, key=lambda sentence: sentence.weight, reverse=True):
        length, size = len(sentence.text.split()), len(sentence.text.encode()) + 1
        if words + length <= word_limit and bytes_ + size <= MAX_TEXT_BYTES:
            words, bytes_ = words + length, bytes_ + size
            chosen.append(sentence)
    return sorted(chosen, key=lambda sentence: sentence.age)


def _grouped(kept: list[_Kept]) -> list[_Kept]:
    """Sentences on the same subject together, subjects in the order in which they first appear."""
    order: dict[frozenset[str], int] = {}
    for sentence in kept:
        order.setdefault(analysed(sentence.text).subject, len(order))
    return sorted(kept, key=lambda sentence: order[analysed(sentence.text).subject])
