"""Measure the share of its sources that a rewritten text keeps, in the same language or another one."""

from collections.abc import Sequence
from typing import NamedTuple

from mnemic.memory.text.details import details, find_numbers
from mnemic.memory.text.kept import compared_details
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
    free = {detail.casefold() for part in map(details, ended) for kind in part[:4] for detail in kind}
    elsewhere = "\n".join(source for source in sources if not _is_english(source))
    named = [source for source in sources if _is_english(source) or _capitals_tell(elsewhere)]
    names = {name.casefold() for source in named for name in details(source).names}
    numbers, is_english = set(find_numbers(text)), _is_english(text)

    def counts(kind: str, detail: str) -> bool:
        if detail.casefold() in free or (kind == "name" and detail.casefold() not in names):
            return False
        return kind != "date" or is_english or any(map(str.isdigit, detail))

    def is_there(kind: str, detail: str) -> bool:
        written = set(find_numbers(detail))  # the month may have its name in another language
        return kind == "date" and not is_english and bool(written) and written <= numbers

    wanted = [row for row in compared_details(sources, text) if counts(row.kind, row.detail)]
    missing = tuple(row.detail for row in wanted if not row.is_kept and not is_there(row.kind, row.detail))
    return Retention(1 - len(missing) / len(wanted) if wanted else 1.0, len(wanted), missing)


def wanted_share(sources: Sequence[str], word_limit: int) -> float:
    """Return the share that a text within the word limit can keep: less if its sources have more words."""
    return min(WANTED_SHARE, word_limit / max(1, sum(len(source.split()) for source in sources)))


def _is_english(text: str) -> bool:
    small = [word.text for word in words(text) if word.text.islower()]
    return not small or sum(word in FUNCTION_WORDS for word in small) >= _FEWEST_ENGLISH * len(small)


def _capitals_tell(text: str) -> bool:
    inside = [word.text for word in words(text) if not word.initial]
    return sum(word[0].isupper() for word in inside) <= _MAX_NAMES * len(inside)
