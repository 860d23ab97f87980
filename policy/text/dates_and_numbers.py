"""Dates and numbers as people write them, each brought to one form.

`5 March 2026`, `5 March`, `March 2026`, `March`, `Monday`; `3.5kg`, `$5`, `9:30`, `7pm`, `1000`, `b8`.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mnemic.policy.text.words import pattern

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DATE_WORDS = frozenset(name.casefold() + end for name in WEEKDAYS + MONTHS for end in ("", "s"))

_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>\d{4})\b(?!:)"
_MONTH_NUMBERS = {month[:3].casefold(): number for number, month in enumerate(MONTHS, start=1)}
_WEEKDAY_NAMES = {day[:3].casefold(): day for day in WEEKDAYS}

_ONE_TO_TWELVE = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_UNITS = {
    "percent": "%",
    "per cent": "%",
    "a.m.": "am",
    "p.m.": "pm",
    "dollar": "$",
    "dollars": "$",
    "usd": "$",
    "euro": "€",
    "euros": "€",
    "eur": "€",
    "gbp": "£",
    "o'clock": "",
    "o’clock": "",
    "st": "",
    "nd": "",
    "rd": "",
    "th": "",
}
_NUMBER = pattern(
    r"(?:(?<!\w)(?P<sign>[-−])(?=[\d$€£¥]))?(?P<currency>[$€£¥]\s?)?(?<!\w)"
    r"(?P<value>\d{1,3}(?:,\d{3})++(?:\.\d++)?|\d++(?:[.:]\d++)*+)"
    r"(?P<unit>\s?(?:%|€|£|\$|(?:percent|per cent|[ap]\.m\.|[ap]m|dollars?|usd|euros?|eur|gbp|o['’]clock"
    r"|kg|km|cm|mm|mg|ml|gb|mb|tb)(?!\w))|[a-z]++)?",
    re.IGNORECASE,
)
#: A word that begins with a letter and holds a digit: a room, a version, a code.
_CODE = re.compile(r"(?<!\w)[^\W\d_]\w*")
#: `one` is a number only where it counts: not in `no one`, `the one`, `one of them`, `one day`.
_NUMBER_WORD = pattern(
    r"(?<!\bno )(?<!\bthe )(?<!\bthis )(?<!\bthat )(?<!\beach )(?<!\bany )(?<!\bwhich )\bone\b"
    r"(?! (?:of|another|day|thing|time|called|named|is|was|who|which|that)\b)"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
    re.IGNORECASE,
)

_Reader = Callable[[re.Match[str]], str | None]


class DatesFound(NamedTuple):
    """The dates of a text in order, each once, and the text with them blanked."""

    dates: tuple[str, ...]
    rest: str


def written_date(day: int, month: int, year: int | None) -> str:
    """The one form of a date, in English whatever the locale."""
    return " ".join(filter(None, (str(day), MONTHS[month - 1], str(year) if year else "")))


def _checked(day: str, month: int, year: str | None) -> str | None:
    if not (1 <= int(day) <= 31 and 1 <= month <= 12):
        return None
    century = "20" if year and len(year) == 2 else ""
    return written_date(int(day), month, int(century + year) if year else None)


def _year_first(match: re.Match[str]) -> str | None:
    return _checked(match["day"], int(match["month"]), match["year"])


def _day_first(match: re.Match[str]) -> str | None:
    """Day before month, as most of the world writes, unless only the other order makes a date."""
    return _checked(match["day"], int(match["month"]), match["year"]) or _checked(
        match["month"], int(match["day"]), match["year"]
    )


def _month_number(match: re.Match[str]) -> int:
    return _MONTH_NUMBERS[match["month"][:3].casefold()]


def _named_month(match: re.Match[str]) -> str | None:
    return _checked(match["day"], _month_number(match), match["year"])


def _month_of_year(match: re.Match[str]) -> str | None:
    return f"{MONTHS[_month_number(match) - 1]} {match['year']}"


def _lone_month(match: re.Match[str]) -> str | None:
    """`May` and `March` are also verbs: they count only where the capital is not the sentence's."""
    written = match.group()
    if written.casefold() in ("may", "march"):
        before = match.string[: match.start()].rstrip()[-1:]
        if not written.istitle() or before in ("", ".", "!", "?", "\n"):
            return None
    return written.capitalize()


def _weekday(match: re.Match[str]) -> str | None:
    return _WEEKDAY_NAMES[match.group()[:3].casefold()]


#: Each form with what reads it: the date, or None where it is none after all. The fuller forms come first.
_FORMS: tuple[tuple[Callable[[], re.Pattern[str]], _Reader], ...] = tuple(
    (pattern(expression, re.IGNORECASE), read)
    for expression, read in (
        (r"(?<![\w-])(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?!\d)", _year_first),
        (r"(?<![\w./])(?P<day>\d{1,2})/(?P<month>\d{1,2})/(?P<year>\d{4}|\d{2})(?![\w/])", _day_first),
        (r"(?<![\w./])(?P<day>\d{1,2})([.-])(?P<month>\d{1,2})\2(?P<year>\d{4})(?!\w)", _day_first),
        (rf"(?<![\w.:/]){_DAY}\.?\s{{1,2}}(?:of\s)?{_MONTH}(?:,?\s{_YEAR})?", _named_month),
        (rf"\b{_MONTH}\s{{1,2}}(?:the\s)?{_DAY}(?![:.]\d)(?:,?\s{_YEAR})?", _named_month),
        (rf"\b{_MONTH},?\s(?:of\s)?{_YEAR}", _month_of_year),
        (r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b", _lone_month),
        (r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b", _weekday),
    )
)


def find_dates(text: str) -> DatesFound:
    """Every date, month and weekday of a text."""
    placed: list[tuple[int, str]] = []

    def blank(read: _Reader, match: re.Match[str]) -> str:
        date = read(match)
        if date is None:
            return match.group()
        placed.append((match.start(), date))
        return " " * len(match.group())

    for form, read in _FORMS:
        text = form().sub(partial(blank, read), text)
    return DatesFound(tuple(dict.fromkeys(date for _, date in sorted(placed))), text)


def _value(match: re.Match[str]) -> str:
    value = match["value"].replace(",", "")
    if ":" in value:
        return value.removesuffix(":00").removeprefix("0") or "0"
    if value.count(".") == 1:
        return value.rstrip("0").rstrip(".")
    return value


def _number(match: re.Match[str]) -> str:
    unit = (match["unit"] or "").strip().casefold()
    unit = _UNITS.get(unit, unit)
    currency = (match["currency"] or "").strip()
    if unit in ("€", "£", "$"):
        currency, unit = unit, ""
    sign = "-" if match["sign"] else ""
    return f"{sign}{currency}{_value(match)}{unit}"


def find_numbers(text: str) -> tuple[str, ...]:
    """The numbers of a text in order, each once; `one` to `twelve` count as digits. Dates are taken out before."""
    placed = [(match.start(), _number(match)) for match in _NUMBER().finditer(text)]
    placed += [
        (match.start(), match.group().casefold())
        for match in _CODE.finditer(text)
        if any(char.isdigit() for char in match.group())
    ]
    placed += [
        (match.start(), str(_ONE_TO_TWELVE.index(match.group().casefold()) + 1))
        for match in _NUMBER_WORD().finditer(text)
    ]
    return tuple(dict.fromkeys(number for _, number in sorted(placed)))
