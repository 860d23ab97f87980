"""Measure the share of its sources that a rewritten text keeps, in the same language or another one."""

from collections.abc import Sequence
from typing import NamedTuple

from mnemic.memory.text.details import details, find_numbers
from mnemic.memory.text.kept import Compared, compared_details
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import words

#: A newer detail replaces an outdated one. If everything fits, a text that keeps less than this share is sent back. Of
#: six careful texts that kept less than 0.9, four kept 0.8 and lacked only details that were past or out of scope.
WANTED_SHARE = 0.8
#: Share of function words of English among words in small letters; other languages share a few of these words.
_FEWEST_ENGLISH = 0.33
#: Share of capitalised words within sentences. Above it the language capitalises every noun, not only names.
_MAX_NAMES = 0.2


class Retention(NamedTuple):
    """The share of its sources' distinct details that a text keeps."""

    #: 0..1; 1.0 if there are no details.
    share: float
    #: The number of all details.
    details: int
    missing: tuple[str, ...]

    def lacking(self, wanted: float) -> tuple[str, ...]:
        """Return the fewest details to put back for this share, since not all may fit."""
        least = -(-round(wanted * self.details, 6) // 1)  # rounded up
        return self.missing[: max(0, int(least) - self.details + len(self.missing))]


def retention(sources: Sequence[str], text: str, ended: Sequence[str] = ()) -> Retention:
    """Return the share of names, numbers, dates and quoted words of the sources that a text keeps.

    These details are the same in every language, except names of days and months, and nouns that German capitalises:
    they count only if source and text have the same language.

    Args:
        sources: the texts that the new text was made of.
        text: the new one.
        ended: outdated texts; none of their details needs to be kept.
    """
    rules = _Rules(
        outdated=_outdated_details(ended),
        names=_names(sources),
        numbers=frozenset(find_numbers(text)),
        is_english=_is_english(text),
    )
    counted = 0
    missing: list[str] = []
    for row in compared_details(sources, text):
        if rules.counts(row):
            counted += 1
            if not row.is_kept and not rules.is_translated_date(row):
                missing.append(row.detail)
    if not counted:
        return Retention(1.0, 0, ())
    return Retention(1 - len(missing) / counted, counted, tuple(missing))


class _Rules(NamedTuple):
    """Rules that decide which details of the sources a text must keep."""

    #: Details of outdated texts, casefolded.
    outdated: frozenset[str]
    #: Capitalised words of the sources that are names, casefolded.
    names: frozenset[str]
    #: Numbers of the new text.
    numbers: frozenset[str]
    #: Whether the new text is English.
    is_english: bool

    def counts(self, row: Compared) -> bool:
        """Return whether a text must keep a detail."""
        folded = row.detail.casefold()
        if folded in self.outdated or (row.kind == "name" and folded not in self.names):
            return False
        if row.kind != "date" or self.is_english:
            return True
        return any(char.isdigit() for char in row.detail)

    def is_translated_date(self, row: Compared) -> bool:
        """Return whether a text in another language has the numbers of a date; its months have other names."""
        if row.kind != "date" or self.is_english:
            return False
        written = set(find_numbers(row.detail))
        return bool(written) and written <= self.numbers


def _outdated_details(ended: Sequence[str]) -> frozenset[str]:
    outdated: set[str] = set()
    for text in ended:
        parts = details(text)
        for detail in [*parts.names, *parts.numbers, *parts.dates, *parts.quoted]:
            outdated.add(detail.casefold())
    return frozenset(outdated)


def _names(sources: Sequence[str]) -> frozenset[str]:
    """Return the names in the sources; texts that capitalise every noun count for none."""
    english: list[str] = []
    foreign: list[str] = []
    for source in sources:
        if _is_english(source):
            english.append(source)
        else:
            foreign.append(source)
    with_names = english
    if _capitals_mark_names("\n".join(foreign)):
        with_names = english + foreign
    names: set[str] = set()
    for source in with_names:
        names.update(name.casefold() for name in details(source).names)
    return frozenset(names)


def wanted_share(sources: Sequence[str], word_limit: int) -> float:
    """Return the share that a text within the word limit can keep: less if its sources have more words."""
    return min(WANTED_SHARE, word_limit / max(1, sum(len(source.split()) for source in sources)))


def _is_english(text: str) -> bool:
    lower_case = function_words = 0
    for word in words(text):
        if word.text.islower():
            lower_case += 1
            function_words += word.text in FUNCTION_WORDS
    return function_words >= _FEWEST_ENGLISH * lower_case


def _capitals_mark_names(text: str) -> bool:
    inside = capitalised = 0
    for word in words(text):
        if not word.initial:
            inside += 1
            capitalised += word.text[0].isupper()
    return capitalised <= _MAX_NAMES * inside
