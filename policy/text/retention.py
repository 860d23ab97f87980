"""How much of its sources a rewritten text keeps, be it written in their language or another one."""

from collections.abc import Sequence
from typing import NamedTuple

from mnemic.policy.text.details import details, find_numbers
from mnemic.policy.text.kept import compared_details
from mnemic.policy.text.words import FUNCTION_WORDS, words

#: Newer wins, so an outdated detail may go; where everything fits, a text that keeps less than this is sent back. Of
#: six texts of a careful reader that kept less than 0.9, four kept 0.8, and lacked what was past or not of this scope.
WANTED_SHARE = 0.8
#: Of the words in small letters, those that are function words of English; other languages share a few of these.
_FEWEST_ENGLISH = 0.33
#: Of the words within sentences of other texts; where more have a capital, it is every noun's, and tells of no name.
_MOST_NAMES = 0.2


class Retention(NamedTuple):
    """What a text keeps of the distinct details of its sources."""

    #: 0..1; 1.0 where there are none.
    share: float
    #: Of all details, and of those that it lacks, in the order of the sources.
    details: int
    missing: tuple[str, ...]

    def lacking(self, wanted: float) -> tuple[str, ...]:
        """The details to put back for this share: no more than it takes, for not all may fit."""
        least = -(-round(wanted * self.details, 6) // 1)  # rounded up
        return self.missing[: max(0, int(least) - self.details + len(self.missing))]


def retention(sources: Sequence[str], text: str, ended: Sequence[str] = ()) -> Retention:
    """Names, numbers, dates and quoted words of the sources that a text keeps.

    They are the same in every language; the names of days and months are not, nor is a noun that German writes with a
    capital, so that these count only where the text is of the language that they are of.

    Args:
        sources: what the text was made of.
        text: the new one.
        ended: what no longer holds; nothing of it needs to be kept.
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
    """The share that can be asked of a text within the limit: less where its sources have more words than it may."""
    return min(WANTED_SHARE, word_limit / max(1, sum(len(source.split()) for source in sources)))


def _is_english(text: str) -> bool:
    small = [word.text for word in words(text) if word.text.islower()]
    return not small or sum(word in FUNCTION_WORDS for word in small) >= _FEWEST_ENGLISH * len(small)


def _capitals_tell(text: str) -> bool:
    inside = [word.text for word in words(text) if not word.initial]
    return sum(word[0].isupper() for word in inside) <= _MOST_NAMES * len(inside)
