"""What a refinement kept: names, numbers and dates, and what is protected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from benchmarks.recall_quality.porter import stem
from benchmarks.refinement.cores import ModelOverrides
from benchmarks.refinement.refining import Refined
from mnemic.memory.text.details import DATE_WORDS, find_numbers
from mnemic.memory.text.kept import compared_details, missing_details
from mnemic.memory.text.shape import count_tokens
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import folded_words


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of one core memory; shares from 0 to 1."""

    memories_before: int
    memories_after: int
    tokens_before: int
    tokens_after: int
    #: Distinct names, numbers, dates and quotations that stand anywhere in the core memory afterwards.
    kept_whole: float
    #: Of each memory's, those that stand in the living memory that took it in.
    kept_each: float
    #: Of the words of the answers to questions that the memories said, those that are still said where they went. Those
    #: that tell when are dates, or became some: `last Friday`, `a week ago`, `for three years`.
    answers_kept: float
    #: Texts of the protected memories.
    protected: tuple[str, ...]
    #: Those that say something else than when they were protected, or are gone: none may be.
    protected_changed: int


def figures(refined: Refined) -> Figures:
    """Count from the texts, not from the refinement's own report."""
    old = refined.core.memories
    living = {id_: memory.content for memory in refined.after for id_ in refined.taken[memory.id]}
    wanted = [([given], living.get(id_, "")) for id_, given in refined.before.items()]
    said = {memory.id: memory.content for memory in refined.after}
    return Figures(
        memories_before=len(old),
        memories_after=len(refined.after),
        tokens_before=refined.core.tokens,
        tokens_after=sum(count_tokens(memory.content) for memory in refined.after),
        kept_whole=_kept([(old, "\n".join(memory.content for memory in refined.after))]),
        kept_each=_kept(wanted),
        answers_kept=_answers_kept(refined, living),
        protected=tuple(memory.content for memory in refined.after if memory.protected),
        protected_changed=sum(said.get(id_) != text for id_, text in refined.protected.items()),
    )


def _kept(pairs: Sequence[tuple[Sequence[ModelOverrides], str]]) -> float:
    """Return the share of the details of all old texts that their new texts hold."""
    kept = [
        is_kept
        for given, new in pairs
        for _, _, is_kept in compared_details([one.text for one in given], new, [one.dated for one in given])
    ]
    return sum(kept) / max(1, len(kept))


def _answers_kept(refined: Refined, living: Mapping[UUID, str]) -> float:
    said = kept = 0
    for question in refined.core.questions:
        ids = [id_ for id_, given in refined.before.items() if given.turn_ids & question.evidence]
        given = [refined.before[id_] for id_ in ids]
        words = (_stems(question.answer) - _TIMES) & _stems(" ".join(one.text for one in given))
        now = " ".join(living.get(id_, "") for id_ in ids)
        lost = words - _stems(now)
        missing = missing_details([one.text for one in given], now, [one.dated for one in given])
        lost -= {*find_numbers(" ".join(lost))} - {*missing}
        said, kept = said + len(words), kept + len(words) - len(lost)
    return kept / max(1, said)


_TIMES = {stem(word) for word in [*DATE_WORDS, "day", "week", "weekend", "month", "year"]}


def _stems(text: str) -> set[str]:
    telling = (word for word in folded_words(text) if word not in FUNCTION_WORDS and not find_numbers(word))
    return {stem(word) for word in telling} | set(find_numbers(text))
