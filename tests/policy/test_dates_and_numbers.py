"""Dates and numbers have one form, however they were written."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.details import MONTHS, find_dates, find_numbers


@pytest.mark.parametrize(
    "written",
    [
        "2026-03-05",
        "2026/3/5",
        "5 March 2026",
        "5th of March, 2026",
        "5. Mar 2026",
        "March 5, 2026",
        "march 5th 2026",
        "Mar. 5, 2026",
        "05/03/2026",
        "5.3.2026",
        "05/03/26",
    ],
)
def test_one_day_has_one_form(written: str) -> None:
    assert find_dates(f"The pilot starts on {written}, they say.").dates == ("5 March 2026",)


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("due 3/25/2026", ("25 March 2026",)),
        ("on the 5th of March", ("5 March",)),
        ("in march 2026", ("March 2026",)),
        ("early in May, on Mondays and wednesday's", ("May", "Monday", "Wednesday")),
        ("wednesday 15 april", ("Wednesday", "15 April")),
        ("May I march on? You may.", ()),
        ("version 1.5.2, ratio 45/45/2026, at 10:30", ()),
        ("on March 5 and 5 March", ("5 March",)),
    ],
)
def test_dates_are_as_exact_as_written(text: str, dates: tuple[str, ...]) -> None:
    assert find_dates(text).dates == dates


@given(st.dates(min_value=date(1000, 1, 1)), st.sampled_from(["{d} {m} {y}", "{m} {d}, {y}", "{iso}", "{d}/{n}/{y}"]))
def test_every_day_is_found_in_every_form(day: date, form: str) -> None:
    month = MONTHS[day.month - 1]
    written = form.format(d=day.day, m=month, y=day.year, iso=day.isoformat(), n=day.month)
    found = find_dates(f"Ana came on {written}.")
    assert found.dates == (f"{day.day} {month} {day.year}",)
    assert find_numbers(found.rest) == ()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2 cats, two cats, Twelve dogs", ("2", "12")),
        ("no one, the one, one of them, one day", ()),
        ("has one cat", ("1",)),
        ("1,000 berths, 1000 berths", ("1000",)),
        ("$5, 5 dollars, 5 USD", ("$5",)),
        ("3.50 euros and €3.5", ("€3.5",)),
        ("7pm, 7 p.m., 7 PM", ("7pm",)),
        ("7 am", ("7am",)),
        ("6:00, 06:00, 6 o'clock", ("6",)),
        ("9:30 and 09:30", ("9:30",)),
        ("5 %, 5 percent", ("5%",)),
        ("5kg, 5 kg", ("5kg",)),
        ("the 3rd", ("3",)),
        ("-5 degrees", ("-5",)),
        ("3-5 people", ("3", "5")),
        ("room b8 or 4b", ("b8", "4b")),
        ("version 1.5.2", ("1.5.2",)),
        ("100 and 1.0", ("100", "1")),
        ("nothing", ()),
    ],
)
def test_numbers_have_one_form_with_their_unit(text: str, numbers: tuple[str, ...]) -> None:
    assert find_numbers(text) == numbers


@given(st.integers(0, 10**30))
def test_every_whole_number_is_found_grouped_or_not(number: int) -> None:
    assert find_numbers(f"It has {number} parts.") == find_numbers(f"It has {number:,} parts.") == (str(number),)
