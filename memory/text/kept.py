"""Compare the details of source texts with another text, in any form; a date also keeps values computed from it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import NamedTuple

from mnemic.memory.text.details import WEEKDAYS, Details, details, placed_dates
from mnemic.memory.text.words import folded_words, pattern
from mnemic.state.times import MONTHS

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
        if self.year:
            return self.holds(other)
        return self._replace(year=other.year).holds(other)

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
        if self.day and self.first:
            return WEEKDAYS[self.first.weekday()]
        return None


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
    missing: list[str] = []
    for row in compared_details(sources, text, since):
        if not row.is_kept:
            missing.append(row.detail)
    return tuple(missing)


def compared_details(sources: Sequence[str], text: str, since: Sequence[datetime] = ()) -> list[Compared]:
    """Compare every distinct detail of the sources, in any case, with the text; it must hold it for all of them."""
    source_days = [_days(source) for source in sources]
    comparison = _Comparison.of(text, source_days)
    rows: dict[tuple[str, str], Compared] = {}
    for place, source in enumerate(sources):
        said_at = since[place] if place < len(since) else None
        for row in comparison.compare(details(source), source_days[place], said_at):
            key = (row.kind, row.detail.casefold())
            first = rows.setdefault(key, row)
            rows[key] = first._replace(is_kept=first.is_kept and row.is_kept)
    return list(rows.values())


class _Comparison(NamedTuple):
    """The details of a text, in the forms in which a source may have them."""

    folded: str
    words: frozenset[str]
    numbers: frozenset[str]
    dates: frozenset[str]
    days: list[_Day]
    #: Days that no source names.
    computed: list[_Day]

    @classmethod
    def of(cls, text: str, source_days: Sequence[Sequence[_Day]]) -> "_Comparison":
        """Return the details of a text for a comparison with sources that name these days."""
        days = _days(text)
        computed: list[_Day] = []
        years: list[str] = []
        for day in days:
            if not any(_implied(day, named) for named in source_days):
                computed.append(day)
            # a year within a date counts as a number as well; a day of the month does not
            if day.year:
                years.append(f"{day.year:04}")
        present = details(text)
        return cls(
            folded=" ".join(text.casefold().split()),
            words=frozenset(folded_words(text)),
            numbers=frozenset([*present.numbers, *years]),
            dates=frozenset(present.dates),
            days=days,
            computed=computed,
        )

    def compare(self, source: Details, named: Sequence[_Day], said_at: datetime | None) -> Iterator[Compared]:
        """Yield each detail of a source, and whether the text holds it.

        Args:
            source: details of the source.
            named: days that the source names.
            said_at: time of the source; without it no spans of time are computed.
        """
        for name in source.names:
            yield Compared("name", name, name.casefold() in self.words)
        for number in source.numbers:
            is_kept = number in self.numbers or _is_between(number, said_at, self.computed)
            yield Compared("number", number, is_kept)
        weekdays = self._weekdays(named)
        for written in source.dates:
            yield Compared("date", written, written in weekdays or written in self.dates or self._holds_date(written))
        for quoted in source.quoted:
            yield Compared("quoted", quoted, _is_quoted(quoted, self.folded))

    def _weekdays(self, named: Sequence[_Day]) -> set[str | None]:
        """Return the weekdays of the computed days, and of those that imply a day of the source."""
        weekdays: set[str | None] = set()
        for day in self.days:
            if day in self.computed or _implied(day, named):
                weekdays.add(day.weekday)
        return weekdays

    def _holds_date(self, written: str) -> bool:
        day = _day(written)
        return day is not None and any(other.holds(day) for other in self.days)


def _implied(day: _Day, named: Sequence[_Day]) -> bool:
    return any(other.implies(day) for other in named)


def _days(text: str) -> list[_Day]:
    """Return the dates and years of a text; dates without a year also with the last year before and the next after."""
    dates, rest = placed_dates(text)
    placed: list[tuple[int, _Day]] = []
    for place, written in dates:
        day = _day(written)
        if day:
            placed.append((place, day))
    for match in _YEAR().finditer(rest):
        placed.append((match.start(), _Day(int(match.group()))))
    placed.sort()
    years = [day.year for _, day in placed]
    days: list[_Day] = []
    for place, (_, day) in enumerate(placed):
        days.append(day)
        if day.year is None:
            for year in (_first_year(reversed(years[:place])), _first_year(years[place:])):
                if year:
                    days.append(day._replace(year=year))
    return days


def _first_year(years: Iterable[int | None]) -> int | None:
    for year in years:
        if year:
            return year
    return None


def _day(written: str) -> _Day | None:
    """Parse a date in the common form; None for a weekday."""
    for month in written.split():
        if month in MONTHS:
            before, _, after = written.partition(month)
            return _Day(int(after or 0) or None, MONTHS.index(month) + 1, int(before or 0) or None)
    return None


def _is_between(number: str, said_at: datetime | None, days: Sequence[_Day]) -> bool:
    """Return whether a number is the time between a moment and one of these days: years, months, weeks or days."""
    if said_at is None or not number.isdecimal():
        return False
    for day in days:
        first = day.first
        if first and int(number) in _spans(day, first, said_at):
            return True
    return False


def _spans(day: _Day, first: date, said_at: datetime) -> Iterator[int]:
    yield abs(first.year - said_at.year)
    if day.month:
        yield abs(12 * (first.year - said_at.year) + first.month - said_at.month)
    if day.day:
        between = abs(first.toordinal() - said_at.toordinal())
        yield between
        yield between // 7
        yield -(-between // 7)  # two weekends ago are 9 days, or 15


def _is_quoted(quoted: str, folded: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(quoted)}(?!\w)", folded) is not None
