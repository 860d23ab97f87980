"""Details that a text keeps in another form, and those that it only seems to keep."""

from datetime import UTC, datetime

import pytest

from mnemic.memory.text.details import find_dates, find_numbers
from mnemic.memory.text.kept import missing_details

#: When the sources were said: a Wednesday.
SAID = datetime(2026, 5, 20, 9, tzinfo=UTC)


def missing(text: str, *sources: str) -> tuple[str, ...]:
    return missing_details(sources, text, [SAID] * len(sources))


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("from 12 to about 22 April 2026", ("12 April 2026", "22 April 2026")),
        ("12-22 April, and 3, 5 and 7 May", ("12 April", "22 April", "3 May", "5 May", "7 May")),
        ("April 12 to 22, 2026", ("12 April", "22 April 2026")),
        ("from the 5th to 7th of May", ("5 May", "7 May")),
    ],
)
def test_days_that_share_a_month_are_dates_each(text: str, dates: tuple[str, ...]) -> None:
    assert find_dates(text)[0] == dates


@pytest.mark.parametrize("text", ["3 cats on 5 May", "3 and 5 cats in May", "April 22 and 3 cats", "3 to 2026-03-05"])
def test_a_number_that_counts_something_else_is_no_day(text: str) -> None:
    assert "3" in find_numbers(find_dates(text)[1])


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Ana came on 2 March 2026.", "Ana came on Monday, 2 March 2026."),  # a weekday that follows from its date
        ("Ana came on 18 May 2026.", "Ana came on Monday."),  # and one of which the date was worked out
        ("Ana was in Oslo from 12 to about 22 April 2026.", "Ana was in Oslo from 12 April 2026 to 22 April 2026."),
        ("Ana sailed from 12 April to 3 May 2026.", "Ana set sail on 12 April 2026."),
        ("In 2026 Ana sailed on 12 April and 3 May.", "Ana sailed on 3 May 2026."),
        ("Ana married in 2023.", "Ana married three years ago."),
        ("Ana married in 2023.", "Ana married 3 years ago."),
        ("Ana moved in March 2026.", "Ana moved two months ago."),
        ("Ana moved on 6 May 2026.", "Ana moved two weeks ago."),
        ("Ana moves on 25 May 2026.", "Ana moves in five days."),
        ("Ana sailed on 9-10 May 2026.", "Ana sailed two weekends ago."),
    ],
)
def test_what_follows_from_a_date_that_is_named_is_kept(text: str, source: str) -> None:
    assert missing(text, source) == ()


@pytest.mark.parametrize(
    ("text", "sources", "lacking"),
    [
        # the day of one is not the weekday of the other
        ("Ana reports; Bo came on 2 March 2026.", ("Ana reports on Mondays.", "Bo came on 2 March 2026."), ("Monday",)),
        ("Ana came on 3 March 2026.", ("Ana came on Monday.",), ("Monday",)),
        ("Ana married in 2024.", ("Ana married three years ago.",), ("3",)),
        ("Ana married in 2019.", ("Ana married one year ago.",), ("1",)),
        ("Ana has cats, and left in 2023.", ("Ana has 3 cats.", "Ana left in 2023."), ("3",)),
        ("Ana sailed on 12 April, and left in 2025.", ("Ana sailed on 12 April 2026.",), ("12 April 2026",)),
        ("Ana sailed on 12 April.", ("Ana sailed on 12 April 2026.",), ("12 April 2026",)),
    ],
)
def test_what_follows_from_no_date_of_its_own_is_missing(
    text: str, sources: tuple[str, ...], lacking: tuple[str, ...]
) -> None:
    assert missing(text, *sources) == lacking


def test_one_is_a_number_where_something_follows_that_it_counts() -> None:
    assert missing("Ana has a kayak.", "Ana has one kayak, after years of wanting one.") == ("1",)
    assert missing("Ana has a kayak.", "Ana has a kayak; she had been wanting one.") == ()


def test_without_a_time_no_number_is_worked_out() -> None:
    assert missing_details(["Ana married three years ago."], "Ana married in 2023.") == ("3",)
