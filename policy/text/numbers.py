"""Numbers as people write them, brought to one form: `3.5kg`, `$5`, `9:30`, `7pm`, `1000`, `b8`."""

import re

from mnemic.policy.text.patterns import pattern

_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
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
_DIGITS = pattern(
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
    placed = [(match.start(), _number(match)) for match in _DIGITS().finditer(text)]
    placed += [
        (match.start(), match.group().casefold())
        for match in _CODE.finditer(text)
        if any(char.isdigit() for char in match.group())
    ]
    placed += [
        (match.start(), str(_WORDS.index(match.group().casefold()) + 1)) for match in _NUMBER_WORD().finditer(text)
    ]
    return tuple(dict.fromkeys(number for _, number in sorted(placed)))
