"""What a draft of a living text is worth: whether it can be stored, what it keeps, and what is to be mended."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from mnemic.policy.text.retention import Retention, retention, wanted_share
from mnemic.policy.text.shape import MAX_TEXT_BYTES
from mnemic.policy.text.words import sentences
from mnemic.policy.text.writing import is_degenerate
from mnemic.prompts.write_consolidation import (
    EMPTY_OR_REPEATING,
    LACKING,
    MOST_DETAILS,
    STILL_SAID,
    TOO_LONG,
    WriteConsolidationInput,
)
from mnemic.state.records import Outdated

_Problem = Literal["too_long", "empty", "degenerate", "outdated"]


class Verdict(NamedTuple):
    """What a draft is worth."""

    #: Why it cannot be stored, if it cannot.
    why: _Problem | None
    kept: Retention
    #: All that the model should mend; nothing for a good draft.
    to_mend: list[str]


def judged(draft: str, given: WriteConsolidationInput) -> Verdict:
    """Everything that is wrong with a draft, so that one repair can mend all of it."""
    ended = [text for row in given.outdated for text in (row.content, row.part)]
    sources = [given.current, *(memory.content for memory in given.reflections if memory.content not in ended)]
    wanted, kept = wanted_share(sources, given.word_limit), retention(sources, draft, ended)
    words, still = len(draft.split()), _still_said(draft, given.outdated)
    why: list[_Problem] = []
    to_mend: list[str] = []
    if words > given.word_limit or len(draft.encode()) > MAX_TEXT_BYTES:
        why.append("too_long")
        to_mend.append(TOO_LONG.format(words=words, word_limit=given.word_limit))
    if not draft or is_degenerate(draft):
        why.append("degenerate" if draft else "empty")
        to_mend.append(EMPTY_OR_REPEATING)
    if still:
        why.append("outdated")
        to_mend.append(STILL_SAID.format(texts=" ".join(still)))
    if lacking := kept.lacking(wanted):
        to_mend.append(LACKING.format(details=", ".join(lacking[:MOST_DETAILS])))
    return Verdict(why[0] if why else None, kept, to_mend)


def _still_said(draft: str, outdated: Sequence[Outdated]) -> list[str]:
    said = {sentence.casefold() for line in draft.splitlines() for sentence in sentences(line.lstrip("-* "))}
    return list(dict.fromkeys(row.content for row in outdated if row.content.casefold() in said))
