"""What a draft of a living text is worth: whether it can be stored, what it keeps, and what is to be mended."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from mnemic.memory.text.retention import Retention, retention, wanted_share
from mnemic.memory.text.shape import MAX_TEXT_BYTES
from mnemic.memory.text.sharing import content_tokens
from mnemic.memory.text.words import sentences
from mnemic.memory.text.writing import is_degenerate
from mnemic.prompts.write_consolidation import (
    EMPTY_OR_REPEATING,
    LACKING,
    MAX_DETAILS,
    STILL_SAID,
    TOO_LITTLE,
    TOO_LONG,
    WriteConsolidationInput,
)
from mnemic.state.identity import display_name
from mnemic.state.records import Memory, StaleMemory

_Problem = Literal["too_long", "empty", "degenerate", "outdated", "lossy"]
#: A text in other words has fewer distinct words than its sources, where it has all of their details.
_WORDS_PER_DETAIL: Final = 0.5


#: Text of a shared scope key of which every part has ended.
NOTHING_HOLDS: Final = "Nothing holds at present."


class Verdict(NamedTuple):
    """What a draft is worth."""

    #: Why it cannot be stored, if it cannot.
    why: _Problem | None
    kept: Retention
    #: All that the model should mend; nothing for a good draft.
    to_mend: list[str]


def typed_sentences(parts: Sequence[Memory], word_limit: int) -> str:
    """Return what people typed, a line for each sentence with its author, oldest first; the newest that fit.

    No code can decide whether a text that a model made of many sentences still means what they mean.

    Args:
        parts: the reflections that a consolidation of several people has taken in.
        word_limit: words that the text may have.
    """
    lines: dict[str, None] = {}
    for memory in sorted(parts, key=lambda memory: (memory.valid_from, memory.id), reverse=True):
        said = memory.said or memory.content
        line = f"- {display_name(memory.author)}: {said}" if memory.author else f"- {said}"
        text = "\n".join([*lines, line])
        if len(text.split()) <= word_limit and len(text.encode()) <= MAX_TEXT_BYTES:
            lines[line] = None
    return "\n".join(reversed(lines))


def judged(draft: str, given: WriteConsolidationInput, min_share: float) -> Verdict:
    """Return everything that is wrong with a draft, so that one repair can mend all of it.

    Args:
        draft: the new text.
        given: the step's input.
        min_share: share of the sources' details, and half of it of their distinct words, below which a text is refused.
    """
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
        to_mend.append(LACKING.format(details=", ".join(lacking[:MAX_DETAILS])))
    if not why and _loses_most(draft, sources, ended, kept.share, min(min_share, wanted)):
        why.append("lossy")
        to_mend.append(TOO_LITTLE)
    return Verdict(why[0] if why else None, kept, to_mend)


def _loses_most(draft: str, sources: Sequence[str], ended: Sequence[str], kept_share: float, min_share: float) -> bool:
    """Return whether a text keeps too little, by details, or by its number of distinct words in any language."""
    told = content_tokens("\n".join(sources)) - content_tokens("\n".join(ended))
    return kept_share < min_share or len(content_tokens(draft)) < _WORDS_PER_DETAIL * min_share * len(told)


def _still_said(draft: str, outdated: Sequence[StaleMemory]) -> list[str]:
    said = {sentence.casefold() for line in draft.splitlines() for sentence in sentences(line.lstrip("-* "))}
    return list(dict.fromkeys(row.content for row in outdated if row.content.casefold() in said))
