"""Rules for pairs of similar facts: which pairs a model judges, and which of its verdicts may be applied. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from mnemic.memory.text.details import content_tokens, details, find_dates, find_numbers
from mnemic.memory.text.kept import missing_details
from mnemic.memory.text.retention import retention
from mnemic.memory.text.sharing import imitates_prompt
from mnemic.memory.text.words import folded_words
from mnemic.memory.text.writing import check_text

_DIGITS: Final = re.compile(r"\d")


def may_be_same(a: str, b: str, subject: str) -> bool:
    """Return whether two similar facts share a word besides their subject, or differ in numbers and dates alone."""
    return bool(_shared_words(a, b, subject)) or is_numeric_step(a, b)


def is_numeric_step(a: str, b: str) -> bool:
    """Return whether two sentences are equal but for their numbers and dates."""
    return a != b and _without_numbers(a) == _without_numbers(b)


def merged_text(text: str, a: str, b: str) -> str | None:
    """Return the sentence that replaces two facts, or None if they differ, or if it loses or adds something.

    Two facts can be the same if one has every name, number, date and quotation of the other, and if both or none are
    negated. The sentence keeps all of these and adds none. Of its other words at most a quarter is new.
    """
    checked = check_text(text, kind="fact").text
    if checked is None or imitates_prompt(checked):
        return None
    if _lost([a], b) and _lost([b], a):
        return None
    both = f"{a}\n{b}"
    if _lost([a, b], checked) or missing_details([checked], both):
        return None
    if len({details(sentence).negated for sentence in (a, b, checked)}) > 1:
        return None
    words = content_tokens(checked)
    added = words - content_tokens(both)
    if 4 * len(added) > len(words):
        return None
    return checked


def may_update(earlier: str, later: str, subject: str) -> bool:
    """Return whether two facts can be values of one attribute: they share half of the words of the shorter one.

    The subject and all numbers do not count. For the same sentence with other numbers, nothing else has to be shared.
    """
    if is_numeric_step(earlier, later):
        return True
    fewer = min(len(_words(earlier, subject)), len(_words(later, subject)))
    return 2 * len(_shared_words(earlier, later, subject)) >= max(1, fewer)


def _lost(sources: Sequence[str], text: str) -> list[str]:
    """Return the details of the sources that a text lacks. It has `5` if it has `5 am`, but not the reverse."""
    numbers = find_numbers(find_dates(text)[1])
    hours = {number.removesuffix("am").removesuffix("pm") for number in numbers}
    missing = retention(sources, text).missing
    return [detail for detail in missing if detail not in hours]


def _shared_words(a: str, b: str, subject: str) -> frozenset[str]:
    return _words(a, subject) & _words(b, subject)


def _words(text: str, subject: str) -> frozenset[str]:
    return frozenset(_without_digits(content_tokens(text) - content_tokens(subject, 1) - {"not"}))


def _without_numbers(text: str) -> list[str]:
    return _without_digits(folded_words(find_dates(text)[1]))


def _without_digits(words: Iterable[str]) -> list[str]:
    return [word for word in words if not _DIGITS.search(word)]
