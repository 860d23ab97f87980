"""How a memory must be written: complete, short, neutral, in the third person (seed B 9)."""

import re
from typing import Literal, NamedTuple

from mnemic.policy.text.degenerate import is_degenerate
from mnemic.policy.text.hygiene import clean_text
from mnemic.policy.text.person import speaks_of_itself
from mnemic.policy.text.words import WORD, sentence_ends, without_quotes
from mnemic.state.records import Kind

Problem = Literal["empty", "degenerate", "too_long", "first_person", "pronoun_start", "not_neutral"]


class _Limits(NamedTuple):
    words: int | None = None
    chars: int | None = None
    sentences: int | None = None


#: Sentences about somebody. The other kinds are whole texts or steps in their own voice: only their length is checked.
_LIMITS: dict[Kind, _Limits] = {
    "fact": _Limits(words=30, chars=280),
    "reflection": _Limits(words=35, chars=500),
    "episode": _Limits(chars=280, sentences=2),
    "insight": _Limits(chars=280, sentences=2),
}
_BARE_PRONOUNS = frozenset({"he", "she", "they", "it", "his", "her", "hers", "their", "theirs", "its"})
#: An exclamation mark that ends a word or a quotation; `!=` and the like are none.
_EXCLAMATION = re.compile(r"""(?<=[\w"'”’»)%?])\s?[!！]++(?=[\s"'”’»)]|$)""")
_LAST_EXCLAMATION = re.compile(r"(?<![!?！])[!！]++$")


class Verdict(NamedTuple):
    """What became of a text: the text to store, or why it is refused."""

    text: str | None
    problem: Problem | None = None
    #: The text had to be changed: it did not pass at first.
    trimmed: bool = False


def check_text(text: str, *, kind: Kind, max_words: int | None = None) -> Verdict:
    """Accepts, trims or refuses a text that is about to become a memory.

    Trimmed are outer white space, line breaks within a sentence, a last exclamation mark and whole sentences at the end
    beyond the limits. What is accepted is accepted again unchanged.

    Args:
        text: What a model or a rule wrote.
        kind: The kind of memory it becomes; facts, reflections, episodes and insights must meet every rule.
        max_words: Instead of the kind's own word limit.
    """
    limits = _LIMITS.get(kind)
    if limits is None:
        return _check_whole(text, max_words)
    words = max_words if max_words is not None else limits.words
    limits = _Limits(words=words, chars=limits.chars, sentences=limits.sentences)
    trimmed = _LAST_EXCLAMATION.sub(".", _within(" ".join(clean_text(text).split()), limits))
    problem = _problem(trimmed, limits)
    return Verdict(None, problem) if problem else Verdict(trimmed, trimmed=trimmed != text)


def _check_whole(text: str, max_words: int | None) -> Verdict:
    """Whole texts are never cut: what a consolidation loses at its end is lost for good."""
    cleaned = clean_text(text)
    if not WORD.search(cleaned):
        return Verdict(None, "empty")
    if is_degenerate(cleaned):
        return Verdict(None, "degenerate")
    if max_words is not None and len(cleaned.split()) > max_words:
        return Verdict(None, "too_long")
    return Verdict(cleaned, trimmed=cleaned != text)


def _problem(text: str, limits: _Limits) -> Problem | None:
    first = WORD.search(text)
    if first is None:
        return "empty"
    if is_degenerate(text):
        return "degenerate"
    if not _fits(text, limits):
        return "too_long"
    if speaks_of_itself(text):
        return "first_person"
    if re.split("['’]", first.group().casefold())[0] in _BARE_PRONOUNS:
        return "pronoun_start"
    return "not_neutral" if _EXCLAMATION.search(without_quotes(text)) else None


def _fits(text: str, limits: _Limits) -> bool:
    return (
        (limits.words is None or len(text.split()) <= limits.words)
        and (limits.chars is None or len(text) <= limits.chars)
        and (limits.sentences is None or len(sentence_ends(text)) <= limits.sentences)
    )


def _within(text: str, limits: _Limits) -> str:
    """The text without the sentences at its end that are too many; the first one always stays."""
    if _fits(text, limits):
        return text
    heads = [text[:end] for end in sentence_ends(text)]
    return next((head for head in reversed(heads) if _fits(head, limits)), heads[0])
