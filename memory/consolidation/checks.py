"""Checks of a draft: whether it can be stored, its losses, and the problems that the model should mend."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mnemic.memory.text.details import content_tokens
from mnemic.memory.text.retention import Retention, retention, wanted_share
from mnemic.memory.text.shape import MAX_TEXT_BYTES
from mnemic.memory.text.words import sentences
from mnemic.memory.text.writing import is_degenerate
from mnemic.prompts.consolidation.write_consolidation import (
    EMPTY_OR_REPEATING,
    LACKING,
    MAX_DETAILS,
    STILL_SAID,
    TOO_LITTLE,
    TOO_LONG,
    WriteConsolidationInput,
)
from mnemic.state.graphs import RefusedText
from mnemic.state.records import StaleMemory

#: A paraphrase has fewer distinct words than its sources, while it can have all of their details.
_WORDS_PER_DETAIL: Final = 0.5


class Verdict(NamedTuple):
    """Verdict on a draft."""

    #: Reason why it cannot be stored, if it cannot.
    problem: RefusedText | None
    retained: Retention
    #: Everything that the model should mend; empty for a good draft.
    to_mend: list[str]


def judge_draft(draft: str, step_input: WriteConsolidationInput, min_share: float) -> Verdict:
    """Return everything that is wrong with a draft, so that one repair can mend all of it.

    Args:
        draft: the new text.
        step_input: input of the step.
        min_share: smallest share of the sources' details to be kept; of their distinct words it is half of that.
    """
    ended: list[str] = []
    for row in step_input.stale:
        ended += [row.content, row.part]
    sources = [step_input.current]
    sources += [memory.content for memory in step_input.reflections if memory.content not in ended]
    share = wanted_share(sources, step_input.word_limit)
    retained = retention(sources, draft, ended)
    problems, to_mend = _find_problems(draft, step_input)
    lacking = retained.lacking(share)
    if lacking:
        to_mend.append(LACKING.format(details=", ".join(lacking[:MAX_DETAILS])))
    if not problems and _is_lossy(draft, sources, ended, retained.share, min(min_share, share)):
        problems.append("lossy")
        to_mend.append(TOO_LITTLE)
    return Verdict(next(iter(problems), None), retained, to_mend)


def _find_problems(draft: str, step_input: WriteConsolidationInput) -> tuple[list[RefusedText], list[str]]:
    """Return the problems of a draft by itself, and their texts for the model."""
    problems: list[RefusedText] = []
    to_mend: list[str] = []
    words = len(draft.split())
    if words > step_input.word_limit or len(draft.encode()) > MAX_TEXT_BYTES:
        problems.append("too_long")
        to_mend.append(TOO_LONG.format(words=words, word_limit=step_input.word_limit))
    if not draft or is_degenerate(draft):
        problems.append("degenerate" if draft else "empty")
        to_mend.append(EMPTY_OR_REPEATING)
    still = _stale_sentences(draft, step_input.stale)
    if still:
        problems.append("stale")
        to_mend.append(STILL_SAID.format(texts=" ".join(still)))
    return problems, to_mend


def _is_lossy(draft: str, sources: Sequence[str], ended: Sequence[str], share: float, min_share: float) -> bool:
    """Return whether a text keeps too few details, or, in any language, too few distinct words."""
    tokens = content_tokens("\n".join(sources)) - content_tokens("\n".join(ended))
    if share < min_share:
        return True
    return len(content_tokens(draft)) < _WORDS_PER_DETAIL * min_share * len(tokens)


def _stale_sentences(draft: str, stale: Sequence[StaleMemory]) -> list[str]:
    """Return the stale statements that a draft repeats word for word, each once."""
    drafted: set[str] = set()
    for line in draft.splitlines():
        drafted.update(sentence.casefold() for sentence in sentences(line.lstrip("-* ")))
    repeated: dict[str, None] = {}
    for row in stale:
        if row.content.casefold() in drafted:
            repeated[row.content] = None
    return list(repeated)
