"""Relative days made absolute: `tomorrow`, said on 3 March 2026, becomes `on 4 March 2026`."""

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Literal

from mnemic.models.offline.lexicon import MONTHS, NUMBER_WORDS, WEEKDAYS
from mnemic.models.offline.pieces import expand, pattern, words

Direction = Literal["past", "future"]

_DAY_NAMES = "|".join(WEEKDAYS)
_MONTH_NAMES = "|".join(MONTHS)
_PARTS = r"(?P<part> (?:morning|afternoon|evening|night))?"
_COUNT = r"(?P<count>\d{1,3}|" + "|".join(NUMBER_WORDS) + ")"
_UNIT = r"(?P<unit>day|week|month|year)s?"
_ABOUT = r"(?P<about>(?:about|around|roughly|almost|nearly|over|more than|like) )?"
_VAGUE = r"(?P<vague>a few|a couple of|a couple|several|many|some)"
#: What may follow a time; before any other word `Friday` is part of a name, as in `the Friday meeting`.
_AFTER_TIME = expand("<DATES_AFTER_TIME>")
#: After one of these words a date needs no `on` or `in` of its own.
_AHEAD = pattern("<DATES_AHEAD>")
_PREPOSITIONS = words("PREPOSITION")


@dataclass(frozen=True)
class Resolved:
    """A text with absolute dates, and whether it names a time at all."""

    text: str
    dated: bool


def day_text(day: date) -> str:
    """`4 March 2026`, whatever the locale."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _weekday_text(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()]} {day_text(day)}"


def _month_text(year: int, month: int) -> str:
    """A month counted over the ends of the year: month 13 is January of the next."""
    index = year * 12 + month - 1
    return f"{MONTHS[index % 12]} {index // 12}"


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _with_part(part: str | None, day: date) -> str:
    return f"on the{part.lower()} of {day_text(day)}" if part else f"on {day_text(day)}"


def _near_day(match: re.Match[str], today: date, direction: Direction) -> str:
    shift = {"yesterday": -1, "tomorrow": 1, "day after tomorrow": 2, "day before yesterday": -2}
    word = match["word"].lower().removeprefix("the ")
    if word in ("today", "tonight", "last night"):
        part = None if word == "today" else " evening"
        return _with_part(part, today - timedelta(days=word == "last night"))
    if word.startswith("this "):
        return _with_part(word.removeprefix("this"), today)
    return _with_part(match["part"], today + timedelta(days=shift[word]))


def _weekday(match: re.Match[str], today: date, direction: Direction) -> str:
    wanted = [name.lower() for name in WEEKDAYS].index(match["day"].lower())
    which = (match["which"] or "").lower().strip()
    ahead = (wanted - today.weekday()) % 7 or 7
    if which == "next":  # the Friday of the next calendar week
        found = _monday(today) + timedelta(days=7 + wanted)
    elif "last" in which or "past" in which or (direction == "past" and not which):
        found = today - timedelta(days=(today.weekday() - wanted) % 7 or 7)
    else:
        found = today + timedelta(days=ahead)
    part = match["part"]
    return f"on the{part.lower()} of {_weekday_text(found)}" if part else f"on {_weekday_text(found)}"


def _period(match: re.Match[str], today: date, direction: Direction) -> str:
    which, unit = match["which"].lower(), match["unit"].lower()
    step = 1 if "next" in which or "coming" in which else 0 if which == "this" else -1
    if unit == "year":
        return f"in {today.year + step}"
    if unit == "month":
        return f"in {_month_text(today.year, today.month + step)}"
    if unit == "weekend":
        return f"on the weekend of {day_text(_monday(today) + timedelta(days=7 * step + 5))}"
    return f"in the week of {day_text(_monday(today) + timedelta(days=7 * step))}"


def _season(match: re.Match[str], today: date, direction: Direction) -> str:
    which, season = match["which"].lower(), match["season"].lower()
    if which == "this":
        return f"in the {season} of {today.year}"
    side = "after" if which == "next" else "before"
    return f"in the {season} {side} {_month_text(today.year, today.month)}"


def _shifted(today: date, count: int, unit: str) -> str:
    if unit == "day":
        return f"on {day_text(today + timedelta(days=count))}"
    if unit == "week":  # nobody counts weeks to the day
        return f"in the week of {day_text(_monday(today) + timedelta(days=7 * count))}"
    if unit == "month":
        return f"in {_month_text(today.year, today.month + count)}"
    return f"in {today.year + count}"


def _counted(match: re.Match[str], today: date, direction: Direction) -> str:
    count = NUMBER_WORDS.get(match["count"].lower()) or int(match["count"])
    text = _shifted(today, -count if match["ago"] else count, match["unit"].lower())
    if match["about"]:
        return ("before " if match["about"].startswith(("over", "more")) else "around ") + text[3:]
    return text


def _vaguely(match: re.Match[str], today: date, direction: Direction) -> str:
    unit = match["unit"].lower()
    anchors = {"year": str(today.year), "month": _month_text(today.year, today.month)}
    side = "before" if match["ago"] else "after"
    return f"{match['vague'].lower()} {unit}s {side} {anchors.get(unit, day_text(today))}"


def _ordinal(match: re.Match[str], today: date, direction: Direction) -> str:
    number, step = int(match["number"]), -1 if direction == "past" else 1
    year, month = today.year, today.month
    for _ in range(3):  # the next or the previous month that has such a day, at most two months away
        fits = 1 <= number <= monthrange(year, month)[1]
        if fits and ((date(year, month, number) - today).days * step > 0):
            return f"on {day_text(date(year, month, number))}"
        index = year * 12 + month - 1 + step
        year, month = index // 12, index % 12 + 1
    return match[0]


def _year_of(month: int, day: int | None, today: date, direction: Direction) -> int:
    then, now = (month, day or 0), (today.month, today.day if day else 0)
    if direction == "past":
        return today.year if then <= now else today.year - 1
    return today.year if then >= now else today.year + 1


def _day_of_month(match: re.Match[str], today: date, direction: Direction) -> str:
    month = [name.lower() for name in MONTHS].index(match["month"].lower()) + 1
    number = int(match["number"])
    year = _year_of(month, number, today, direction)
    if not 1 <= number <= monthrange(year, month)[1]:
        return match[0]
    day = date(year, month, number)
    return f"on {_weekday_text(day) if match.groupdict().get('weekday') else day_text(day)}"


def _month(match: re.Match[str], today: date, direction: Direction) -> str:
    month = MONTHS.index(match["month"]) + 1
    which = (match["which"] or "").strip()
    toward: Direction = "past" if which == "last" else "future" if which else direction
    return f"in {match['month']} {_year_of(month, None, today, toward)}"


_Handler = Callable[[re.Match[str], date, Direction], str]
_RULES: tuple[tuple[re.Pattern[str], _Handler], ...] = tuple(
    (re.compile(shape, re.IGNORECASE if fold else 0), handler)
    for shape, fold, handler in (
        (
            r"\b(?P<word>(?:the )?day after tomorrow|(?:the )?day before yesterday|today|tonight|last night"
            rf"|this (?:morning|afternoon|evening)|tomorrow|yesterday)\b{_PARTS}\b",
            True,
            _near_day,
        ),
        (
            rf"(?<!every )(?<!each )\b(?P<which>next |last |this past |this coming |this |the coming |the )?"
            rf"(?P<day>{_DAY_NAMES})\b{_PARTS}(?!'s)(?!,? (?:the )?\d)(?! (?!{_AFTER_TIME})\w)",
            True,
            _weekday,
        ),
        (
            r"\b(?P<which>next|last|this past|this coming|this) (?P<unit>weekend|week|month|year)\b(?!'s)",
            True,
            _period,
        ),
        (r"\b(?P<which>next|last|this) (?P<season>spring|summer|fall|autumn|winter)\b", True, _season),
        (rf"\b{_ABOUT}(?:in )?{_COUNT} {_UNIT}(?P<ago> ago| back)\b", True, _counted),
        (rf"\b{_ABOUT}in {_COUNT} {_UNIT}\b(?P<ago>$)?(?! time)", True, _counted),
        (rf"\b(?:in )?{_VAGUE} {_UNIT}(?P<ago> ago| back)\b", True, _vaguely),
        (rf"\bin {_VAGUE} {_UNIT}\b(?P<ago>$)?", True, _vaguely),
        (
            rf"(?:\bthe )?\b(?P<weekday>(?:{_DAY_NAMES}),? )?(?:\bthe )?"
            rf"\b(?P<number>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<month>{_MONTH_NAMES})\b(?!,? \d{{4}})",
            True,
            _day_of_month,
        ),
        (
            rf"\b(?P<month>{_MONTH_NAMES}) (?P<number>\d{{1,2}})(?:st|nd|rd|th)?\b(?!,? \d{{4}}|:)",
            True,
            _day_of_month,
        ),
        (
            rf"(?:\bthe )?(?P<weekday>(?:{_DAY_NAMES}),? )?"
            rf"\bthe (?P<number>\d{{1,2}})(?:st|nd|rd|th)\b(?! (?!{_AFTER_TIME})\w)",
            True,
            _ordinal,
        ),
        (
            rf"(?<!\d )\b(?P<which>next |last |this )?(?P<month>{_MONTH_NAMES})\b"
            r"(?!,? \d| (?:I|we|you|he|she|they|it|the)\b)",
            False,
            _month,
        ),
    )
)
_HAS_DATE = pattern("<DATES_HAS_DATE>")
#: Words that only make sense on the day they were said and that the rules above could not resolve.
UNRESOLVED = pattern("<DATES_UNRESOLVED>", ignore_case=True)


def resolve(text: str, today: date, direction: Direction) -> Resolved:
    """The text with its relative days as absolute dates, seen from the day it was said on.

    A bare weekday, day of the month or month is the last one in a sentence about the past, else the next one;
    `next Friday` is the Friday of the next calendar week.
    """
    for shape, handler in _RULES:
        text = shape.sub(partial(_replaced, handler=handler, today=today, direction=direction), text)
    return Resolved(text=text, dated=bool(_HAS_DATE.search(text)))


def _replaced(match: re.Match[str], handler: _Handler, today: date, direction: Direction) -> str:
    """The absolute date, without its own `on` or `in` where a preposition already stands before it."""
    before = match.string[: match.start()].rsplit(None, 1)
    preposition = before[-1].lower() if before else ""
    if (
        preposition == "from"
        and handler is _weekday
        and direction == "future"
        and match.string[match.end() :].startswith(" to ")
    ):
        return match[0]  # `moved from Monday to Thursday`: only the new day is known for sure
    if preposition == "since":
        direction = "past"
    elif _AHEAD.search(match.string[: match.start()]):
        direction = "future"
    text = handler(match, today, direction)
    return text[3:] if preposition in (*_PREPOSITIONS, "about") and text.startswith(("on ", "in ")) else text
