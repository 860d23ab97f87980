"""Relative days become absolute ones, seen from Wednesday 4 March 2026."""

from datetime import date

import pytest

from mnemic.models.offline.dates import Direction, resolve
from tests.models.offline.speech import FactsOf

TODAY = date(2026, 3, 4)


@pytest.mark.parametrize(
    ("said", "direction", "meant"),
    [
        ("tomorrow", "future", "on 5 March 2026"),
        ("the day after tomorrow", "future", "on 6 March 2026"),
        ("yesterday", "past", "on 3 March 2026"),
        ("last night", "past", "on the evening of 3 March 2026"),
        ("tomorrow morning", "future", "on the morning of 5 March 2026"),
        ("by Friday", "future", "by Friday 6 March 2026"),
        ("on Wednesday", "future", "on Wednesday 11 March 2026"),
        ("on Wednesday", "past", "on Wednesday 25 February 2026"),
        ("last Friday", "past", "on Friday 27 February 2026"),
        ("next Friday", "future", "on Friday 13 March 2026"),
        ("this Friday", "future", "on Friday 6 March 2026"),
        ("last weekend", "past", "on the weekend of 28 February 2026"),
        ("next week", "future", "in the week of 9 March 2026"),
        ("next month", "future", "in April 2026"),
        ("last year", "past", "in 2025"),
        ("last summer", "past", "in the summer before March 2026"),
        ("in ten days", "future", "on 14 March 2026"),
        ("three years ago", "past", "in 2023"),
        ("about five years ago", "past", "around 2021"),
        ("a few months ago", "past", "a few months before March 2026"),
        ("on the 14th", "future", "on 14 March 2026"),
        ("on the 3rd", "future", "on 3 April 2026"),
        ("on the 14th", "past", "on 14 February 2026"),
        ("on the 31st", "past", "on 31 January 2026"),
        ("in June", "future", "in June 2026"),
        ("in June", "past", "in June 2025"),
        ("since June", "future", "since June 2025"),
        ("on January 2nd", "future", "on 2 January 2027"),
        ("on 2 January 2026", "past", "on 2 January 2026"),
        ("starting in May", "past", "starting in May 2026"),
    ],
)
def test_a_relative_time_becomes_absolute(said: str, direction: Direction, meant: str) -> None:
    resolved = resolve(f"I was seen {said}", TODAY, direction)

    assert resolved.text == f"I was seen {meant}"
    assert resolved.dated


@pytest.mark.parametrize(
    "said",
    [
        "every Tuesday",
        "on Tuesdays",
        "the Friday meeting",
        "on the 3rd floor",
        "in March 2019",
        "May I ask",
        "once a year",
    ],
)
def test_what_is_no_relative_time_stays(said: str) -> None:
    assert resolve(said, TODAY, "future").text == said


@pytest.mark.parametrize(
    "day", [date(2024, 2, 29), date(2025, 12, 31), date(2026, 1, 1), date(9999, 12, 1), date(1, 2, 1)]
)
def test_every_day_of_the_calendar_can_be_today(day: date) -> None:
    text = "last month, next month, last year, next year, on the 31st, in three weeks, two days ago, next Friday"

    assert resolve(text, day, "future").dated


@pytest.mark.parametrize(
    ("said", "day"),
    [
        (("The trip is on 12 August.", "I'm flying to Rome on the 19th."), "19 August 2026"),
        (("The trip is on 12 August.", "I'm flying to Rome on 19th"), "19 August 2026"),
        (("The trip was on 12 January.", "I'm flying to Rome on the 19th."), "19 March 2026"),
        (("The trip is on 12 August.", "Nice.", "Fine.", "I'm flying to Rome on the 19th."), "19 March 2026"),
        (("The trip is on 12 August.", "I'm flying to Rome on the 19th of May."), "19 May 2026"),
    ],
)
def test_a_bare_day_is_of_the_month_spoken_of(facts_of: FactsOf, said: tuple[str, ...], day: str) -> None:
    assert [fact.content for fact in facts_of(*said)][-1] == f"Mara is flying to Rome on {day}."
