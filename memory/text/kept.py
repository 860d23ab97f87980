"""Compare the details of source texts with another text, in any form; a date also keeps values computed from it."""

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import zip_longest
from typing import NamedTuple

from mnemic.memory.text.details import WEEKDAYS, details, placed_dates
from mnemic.memory.text.words import folded_words, pattern
from mnemic.state.kinds import MONTHS

_YEAR = pattern(r"(?<!\w)(?:19|20)\d\d(?!\w)")


class _Day(NamedTuple):
    """A date as exact as it was named."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def holds(self, other: "_Day") -> bool:
        """Return whether it is the same day as another one, or more exact."""
        return all(theirs in (None, ours) for ours, theirs in zip(self, other, strict=True))

    def implies(self, other: "_Day") -> bool:
        """Return whether it holds the other one, years aside."""
        return (self if self.year else self._replace(year=other.year)).holds(other)

    @property
    def first(self) -> date | None:
        """Return the first day that it may mean; None if it names no year, or if there is no such day."""
        try:
            return date(self.year or 0, self.month or 1, self.day or 1)
        except ValueError:
            return None

    @property
    def weekday(self) -> str | None:
        """Return the weekday of a whole date; None for a less exact one."""
        return WEEKDAYS[self.first.weekday()] if self.day and self.first else None


class Compared(NamedTuple):
    """A detail of some sources, and whether a text holds it."""

    #: `name`, `number`, `date` or `quoted`.
    kind: str
    detail: str
    is_kept: bool


def missing_details(sources: Sequence[str], text: str, since: Sequence[datetime] = ()) -> tuple[str, ...]:
    """Return names, numbers, dates and quoted words that the text lacks, in the order of the sources.

    A date without a year has the year of the date next to it. A date that no source names was computed from
    one of them: it keeps its weekday, and the number of days, weeks, months or years between the two.

    Args:
        sources: the texts.
        text: the text that must keep their details.
        since: the time of each source; without it no spans of time are computed.
    """
    return tuple(row.detail for row in compared_details(sources, text, since) if not row.is_kept)


def compared_details(sources: Sequence[str], text: str, since: Sequence[datetime] = ()) -> list[Compared]:
    """Compare every distinct detail of the sources, in any case, with the text; it must hold it for all of them."""
    present, folded, known = details(text), " ".join(text.casefold().split()), set(folded_words(text))
    days, stated = _days(text), [_days(source) for source in sources]
    counted = [day for day in days if not any(one.implies(day) for own in stated for one in own)]
    # a year within a date counts as a number as well; a day of the month does not
    numbers = {*present.numbers, *(f"{day.year:04}" for day in days if day.year)}
    found: dict[tuple[str, str], Compared] = {}
    for source, own, said in zip_longest(sources, stated, since):
        falls_on = {day.weekday for day in days if day in counted or any(one.implies(day) for one in own)}
        theirs = details(source)
        held = [
            *(("name", name, name.casefold() in known) for name in theirs.names),
            *(("number", one, one in numbers or _is_between(one, said, counted)) for one in theirs.numbers),
            *(("date", one, _is_told(one, days) or one in falls_on or one in present.dates) for one in theirs.dates),
            *(("quoted", one, _is_quoted(one, folded)) for one in theirs.quoted),
        ]
        for kind, detail, is_held in held:
            first = found.get((kind, detail.casefold()), Compared(kind, detail, is_kept=True))
            found[kind, detail.casefold()] = first._replace(is_kept=first.is_kept and is_held)
    return list(found.values())


def _days(text: str) -> list[_Day]:
    """Return the dates and years of a text; dates without a year also with the last year before and the next after."""
    dates, rest = placed_dates(text)
    placed = [(place, day) for place, written in dates if (day := _day(written))]
    placed += [(match.start(), _Day(int(match.group()))) for match in _YEAR().finditer(rest)]
    placed.sort()
    years = [day.year for _, day in placed]
    found: list[_Day] = []
    for place, (_, day) in enumerate(placed):
        found.append(day)
        if day.year is None:
            beside = (
                next(filter(None, years[place - 1 :: -1] if place else []), None),
                next(filter(None, years[place:]), None),
            )
            found += [day._replace(year=year) for year in beside if year]
    return found


def _day(written: str) -> _Day | None:
    """Parse a date in the common form; None for a weekday."""
    month = next((part for part in written.split() if part in MONTHS), None)
    before, _, after = written.partition(month) if month else ("", "", "")
    return _Day(int(after or 0) or None, MONTHS.index(month) + 1, int(before or 0) or None) if month else None


def _is_told(written: str, days: Sequence[_Day]) -> bool:
    day = _day(written)
    return day is not None and any(one.holds(day) for one in days)


def _is_between(number: str, said: datetime | None, days: Sequence[_Day]) -> bool:
    """Return whether a number is the time between a moment and one of these days: years, months, weeks or days."""
    if said is None or not number.isdecimal():
        return False
    return any(int(number) in _times(day, day.first, said) for day in days if day.first)


def _times(day: _Day, first: date, said: datetime) -> Iterator[int]:
    yield abs(first.year - said.year)
    if day.month:
        yield abs(12 * (first.year - said.year) + first.month - said.month)
    if day.day:
        between = abs(first.toordinal() - said.toordinal())
        yield from (between, between // 7, -(-between // 7))  # two weekends ago are 9 days, or 15


def _is_quoted(quoted: str, folded: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(quoted)}(?!\w)", folded) is not None
