"""What may not change unnoticed when a text is merged or rewritten, and what of it a rewritten text keeps.

Names, numbers, dates, quotations, negations.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from mnemic.policy.text.common_words import is_common_word, word_set
from mnemic.policy.text.dates_and_numbers import DATE_WORDS, find_dates, find_numbers
from mnemic.policy.text.words import QUOTED, Word, bare, folded_words, pattern, words

#: Words that turn a statement round. `no` before a number is a number sign.
_NEGATION = pattern(
    r"n['’]t\b|\b(?:not|cannot|never|none|nobody|nothing|nowhere|neither|nor|without|unable|no(?!\.?\s?\d)"
    r"|(?:do|does|did|is|are|was|were|have|has|had|wo|ca|could|would|should)nt"
    r"|stop(?:s|ped|ping)?|quit(?:s|ting)?|ceased?|gave\sup|given\sup|used\sto|former(?:ly)?"
    r"|avoid(?:s|ed|ing)?|refus(?:es?|ed|ing)|dislik(?:es?|ed|ing)|hat(?:es?|ed|ing)|lack(?:s|ed|ing)?"
    r"|cancel(?:s|led|ed|ling)?)\b",
    re.IGNORECASE,
)
_SUBJECT_I = frozenset({"i", "i'm", "i've", "i'd", "i'll", "i’m", "i’ve", "i’d", "i’ll"})
#: First names that are also function words: a name where a verb of the third person follows.
_NAME_OR_WORD = frozenset({"will", "hope"})
_THIRD_PERSON = word_set("and has is was can could does did had said told went would")


_Kind = Literal["name", "number", "date", "quoted"]


class Details(NamedTuple):
    """The details of one text, each once, in the order in which they appear."""

    #: Capitalised names word by word, as written, without possessive endings.
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    dates: tuple[str, ...]
    #: Quoted words, without case and closing punctuation.
    quoted: tuple[str, ...]
    #: Whether anything is negated.
    negated: bool


def details(text: str) -> Details:
    """The details of a text."""
    dated = find_dates(text)
    return Details(
        names=tuple(_names(dated.rest)),
        numbers=find_numbers(dated.rest),
        dates=dated.dates,
        quoted=_quoted(text),
        negated=_NEGATION().search(text) is not None,
    )


def proper_nouns(text: str) -> Iterator[Word]:
    """Capitalised words that their place in the sentence does not explain."""
    found = words(text)
    for word in found:
        if word.initial or not _is_capitalised(word.text) or _is_everyday(word.text):
            continue
        yield word


def _names(text: str) -> list[str]:
    found = words(text)
    inside = {bare(word.text) for word in found if not word.initial}
    names: dict[str, str] = {}
    for word, following in zip_longest(found, found[1:]):
        name = bare(word.text)
        if not _is_capitalised(name) or _is_everyday(name) or any(char.isdigit() for char in name):
            continue
        if not word.initial or name in inside or not is_common_word(name) or _acts(name, following):
            names.setdefault(name.casefold(), name)
    return list(names.values())


def _is_capitalised(word: str) -> bool:
    return word[0].isupper() or any(char.isupper() for char in word[1:])


def _is_everyday(word: str) -> bool:
    """`I`, a date word, or a common word that is merely shouted."""
    folded = word.casefold()
    return folded in _SUBJECT_I or folded in DATE_WORDS or (len(word) > 1 and word.isupper() and is_common_word(word))


def _acts(name: str, following: Word | None) -> bool:
    if following is None or name.casefold() not in _NAME_OR_WORD:
        return False
    verb = following.text.casefold()
    return verb in _THIRD_PERSON or verb.endswith(("s", "ed"))


def _quoted(text: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in QUOTED.finditer(text):
        inner = next(group for group in match.groups() if group is not None)
        folded = " ".join(inner.casefold().split()).strip(".,;:!?…")
        if folded:
            found[folded] = None
    return tuple(found)


def missing_details(sources: Sequence[str], text: str) -> tuple[str, ...]:
    """Names, numbers, dates and quoted words of the sources that the text lacks, in the order of the sources."""
    present = _Present(text)
    return tuple(detail for kind, detail in _wanted(sources) if not present.holds(kind, detail))


def kept_share(sources: Sequence[str], text: str) -> float:
    """The share (0..1) of the sources' distinct details that the text keeps; 1.0 where there are none."""
    present = _Present(text)
    held = [present.holds(kind, detail) for kind, detail in _wanted(sources)]
    return sum(held) / len(held) if held else 1.0


def _wanted(sources: Sequence[str]) -> list[tuple[_Kind, str]]:
    """Every distinct detail with its kind; a detail is the same in any case."""
    distinct: dict[tuple[_Kind, str], str] = {}
    for source in sources:
        found = details(source)
        kinds: dict[_Kind, tuple[str, ...]] = {
            "name": found.names,
            "number": found.numbers,
            "date": found.dates,
            "quoted": found.quoted,
        }
        for kind, of_kind in kinds.items():
            for detail in of_kind:
                distinct.setdefault((kind, detail.casefold()), detail)
    return [(kind, detail) for (kind, _), detail in distinct.items()]


class _Present:
    """What a text holds, ready to be asked."""

    def __init__(self, text: str) -> None:
        found = details(text)
        self._words = set(folded_words(text))
        self._dates = [set(date.split()) for date in found.dates]
        # a year that stands within a date is there as well; a day of the month is no number of its own
        self._numbers = {*found.numbers, *(part for date in self._dates for part in date if len(part) == 4)}
        self._folded = " ".join(text.casefold().split())

    def holds(self, kind: _Kind, detail: str) -> bool:
        """Whether the text holds the detail; a fuller date holds a less exact one."""
        match kind:
            case "name":
                return detail.casefold() in self._words
            case "number":
                return detail in self._numbers
            case "date":
                return any(set(detail.split()) <= date for date in self._dates)
            case "quoted":
                return re.search(rf"(?<!\w){re.escape(detail)}(?!\w)", self._folded) is not None
