"""Find the details of a text that a merge or rewrite must keep: names, numbers, dates, quotations, negations.

Dates and numbers are brought to one form: `5 March 2026`, `March`, `Monday`; `3.5kg`, `$5`, `9:30`, `7pm`, `b8`.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import (
    QUOTED,
    Word,
    bare,
    caseless,
    folded_words,
    is_common_word,
    pattern,
    stem,
    word_set,
    words,
)
from mnemic.state.times import MONTHS

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SINGULAR_DATE_WORDS = frozenset(name.casefold() for name in WEEKDAYS + MONTHS)
DATE_WORDS = _SINGULAR_DATE_WORDS | {f"{word}s" for word in _SINGULAR_DATE_WORDS}

_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>\d{4})\b(?!:)"
_MONTH_NUMBERS = {month[:3].casefold(): number for number, month in enumerate(MONTHS, start=1)}

_ONE_TO_TWELVE = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
#: The common form of each written unit.
_UNITS = {
    **dict.fromkeys(("percent", "per cent"), "%"),
    "a.m.": "am",
    "p.m.": "pm",
    **dict.fromkeys(("dollar", "dollars", "usd"), "$"),
    **dict.fromkeys(("euro", "euros", "eur"), "€"),
    "gbp": "£",
    **dict.fromkeys(("o'clock", "o’clock", "st", "nd", "rd", "th"), ""),
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
#: `one` is a number only if it counts something: not in `no one`, `the (last) one`, `one of them`, `one day`,
#: `wants one`, `get one in autumn`.
_NUMBER_WORD = caseless(
    r"\b(?:one\b(?<!\bno one)(?<!st one)(?<!\bthe one)(?<!\bthis one)(?<!\bthat one)(?<!\beach one)(?<!\bany one)"
    r"(?<!\bwhich one)"
    r"(?=[ -]\w)(?! (?:of|in|at|on|for|from|with|another|day|thing|time|called|named|is|was|who|which|that)\b)"
    r"|(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b)"
)


#: The fuller forms come first.
_FORMS = (
    pattern(r"(?<![\w-])(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?!\d)"),
    pattern(r"(?<![\w./])(?P<day>\d{1,2})/(?P<month>\d{1,2})/(?P<year>\d{4}|\d{2})(?![\w/])"),
    pattern(r"(?<![\w./])(?P<day>\d{1,2})([.-])(?P<month>\d{1,2})\2(?P<year>\d{4})(?!\w)"),
    pattern(rf"(?<![\w.:/]){_DAY}\.?\s{{1,2}}(?:of\s)?{_MONTH}(?:,?\s{_YEAR})?", re.IGNORECASE),
    pattern(rf"\b{_MONTH}\s{{1,2}}(?:the\s)?{_DAY}(?![:.]\d)(?:,?\s{_YEAR})?", re.IGNORECASE),
    pattern(rf"\b{_MONTH},?\s(?:of\s)?{_YEAR}", re.IGNORECASE),
    pattern(rf"\b(?P<alone>{'|'.join(MONTHS)})\b", re.IGNORECASE),
    pattern(r"\b(?P<weekday>mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE),
)
#: Each form above holds a digit or one of these; most texts have neither.
_PARTS_OF_DATES = ("day", *(month.casefold() for month in MONTHS))
#: Further days of the same month, as in `12 to about 22 April`, `3, 12 and 22 April` or `April 12-22, 2026`.
_ONE_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DASH, _TO = r"\s?[-–—&]\s?", r"\s(?:to|and|or|until|through)\s(?:\w+\s)?"
_DAYS_BEFORE = pattern(rf"(?<![\w.:/-]){_ONE_DAY}(?:,\s{_ONE_DAY})*(?:{_DASH}|{_TO})$", re.IGNORECASE)
_DAYS_AFTER = pattern(
    rf"(?:{_DASH}{_ONE_DAY}(?![\w:.]\d)\b|{_TO}{_ONE_DAY}(?=,?\s\d{{4}}\b|[.,;)]?\s*$|[,;)]))(?:,?\s{_YEAR})?",
    re.IGNORECASE,
)
_ASCII_DIGIT: Final = re.compile("[0-9]")
#: Maximum distance of such days from the date after them, in characters.
_MAX_DISTANCE: Final = 40
#: Highest number of a day and of a month.
_DAYS, _MONTHS = 31, 12


def _date(match: re.Match[str]) -> str | None:
    """Return a match in the common form; None if it is no date after all.

    Of two numbers the first is the day, as most of the world writes, unless only the other order makes a date.
    """
    part = match.groupdict()
    if part.get("weekday"):
        return f"{part['weekday']}day".capitalize()
    if part.get("alone"):
        return None if _is_verb(match) else match.group().capitalize()
    month = _MONTH_NUMBERS.get(part["month"][:3].casefold()) or int(part["month"])
    year = part["year"]
    if "day" not in part:
        return f"{MONTHS[month - 1]} {year}"
    day = int(part["day"])
    if not (1 <= day <= _DAYS and 1 <= month <= _MONTHS):
        day, month = month, day
    if not (1 <= day <= _DAYS and 1 <= month <= _MONTHS):
        return None
    if year and len(year) == len("26"):
        year = f"20{year}"
    if not year or int(year) == 0:
        return f"{day} {MONTHS[month - 1]}"
    return f"{day} {MONTHS[month - 1]} {int(year)}"


def _is_verb(month: re.Match[str]) -> bool:
    """Return whether a month alone is a verb: `May` and `March` are months only with a capital within a sentence."""
    word = month.group()
    if word.casefold() not in ("may", "march"):
        return False
    begins_sentence = month.string[: month.start()].rstrip()[-1:] in ("", ".", "!", "?", "\n")
    return begins_sentence or not word.istitle()


def has_digit(text: str) -> bool:
    """Return whether a text has a digit."""
    if text.isascii():
        return _ASCII_DIGIT.search(text) is not None
    return any(map(str.isdigit, text))


def placed_dates(text: str) -> tuple[list[tuple[int, str]], str]:
    """Return every date, month and weekday of a text with its place, in order, and the text with them blanked."""
    folded = text.casefold()
    if not has_digit(text) and not any(part in folded for part in _PARTS_OF_DATES):
        return [], text
    placed: list[tuple[int, str]] = []
    days: list[tuple[re.Match[str], str]] = []

    def blank(match: re.Match[str]) -> str:
        date = _date(match)
        if date is None:
            return match.group()
        placed.append((match.start(), date))
        if "day" in match.re.groupindex and match["month"][0].isalpha():
            days.append((match, date.partition(" ")[2]))
        return " " * len(match.group())

    for form in _FORMS:
        text = form().sub(blank, text)
    for date, month in days:
        further = _further_days(date, text)
        if further:
            placed += _days_of_month(further, month)
            text = f"{text[: further.start()]}{' ' * len(further.group())}{text[further.end() :]}"
    return sorted(placed), text


def _further_days(date: re.Match[str], text: str) -> re.Match[str] | None:
    """Return the further days of the month, which precede a date that begins with its day, and follow another one."""
    if date.start("day") < date.start("month"):
        return _DAYS_BEFORE().search(text, max(0, date.start() - _MAX_DISTANCE), date.start())
    return _DAYS_AFTER().match(text, date.end())


def _days_of_month(further: re.Match[str], month: str) -> Iterator[tuple[int, str]]:
    """Yield each further day as a date, with its place."""
    year = further.groupdict().get("year")
    if year and not month[-1].isdigit():
        month = f"{month} {year}"
    for number in re.finditer(r"(?<!\d)\d{1,2}(?!\d)", further.group()):
        if 1 <= int(number.group()) <= _DAYS:
            yield further.start() + number.start(), f"{int(number.group())} {month}"


def find_dates(text: str) -> tuple[tuple[str, ...], str]:
    """Return every date, month and weekday of a text once, in order, and the text with them blanked."""
    placed, rest = placed_dates(text)
    return tuple(dict.fromkeys(date for _, date in placed)), rest


def _number(match: re.Match[str]) -> str:
    """Return a number in the common form."""
    value = match["value"].replace(",", "")
    if ":" in value:
        value = value.removesuffix(":00").removeprefix("0") or "0"
    elif value.count(".") == 1:
        value = value.rstrip("0").rstrip(".")
    unit = (match["unit"] or "").strip().casefold()
    unit = _UNITS.get(unit, unit)
    currency = (match["currency"] or "").strip()
    if unit in ("€", "£", "$"):
        currency, unit = unit, ""
    number = f"{currency}{value}{unit}"
    if match["sign"]:
        return f"-{number}"
    return number


def find_numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of a text without dates, in order, each once; `one` to `twelve` count as digits."""
    placed: list[tuple[int, str]] = []
    if has_digit(text):
        for match in _NUMBER().finditer(text):
            placed.append((match.start(), _number(match)))
        for match in _CODE.finditer(text):
            if has_digit(match.group()):
                placed.append((match.start(), match.group().casefold()))
    for match in _NUMBER_WORD(text):
        value = _ONE_TO_TWELVE.index(match.group().casefold()) + 1
        placed.append((match.start(), str(value)))
    return tuple(dict.fromkeys(number for _, number in sorted(placed)))


#: Words that negate a statement. `no` before a number is a number sign.
_NEGATION = caseless(
    r"n['’]t\b|\b(?:not|cannot|never|none|nobody|nothing|nowhere|neither|nor|without|unable|no(?!\.?\s?\d)"
    r"|(?:do|does|did|is|are|was|were|have|has|had|wo|ca|could|would|should)nt"
    r"|stop(?:s|ped|ping)?|quit(?:s|ting)?|ceased?|gave\sup|given\sup|used\sto|former(?:ly)?"
    r"|avoid(?:s|ed|ing)?|refus(?:es?|ed|ing)|dislik(?:es?|ed|ing)|hat(?:es?|ed|ing)|lack(?:s|ed|ing)?"
    r"|cancel(?:s|led|ed|ling)?)\b"
)
SUBJECT_I = word_set("i i'm i've i'd i'll")
#: First names that are also function words: a name if a verb of the third person follows.
_NAME_OR_WORD = frozenset({"will", "hope"})
_THIRD_PERSON = word_set("and has is was can could does did had said told went would")


class Details(NamedTuple):
    """The details of one text, each once, in the order in which they appear."""

    #: Capitalised names word by word, as written, without possessive endings.
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    dates: tuple[str, ...]
    #: Quoted words, without case and closing punctuation.
    quoted: tuple[str, ...]
    #: Whether anything is negated.
    negated: bool


def details(text: str) -> Details:
    """Return the details of a text."""
    dates, rest = find_dates(text)
    return Details(
        names=tuple(_names(rest)),
        numbers=find_numbers(rest),
        dates=dates,
        quoted=tuple(_quotations(text)),
        negated=is_negated(text),
    )


def is_negated(text: str) -> bool:
    """Return whether a text negates anything."""
    return any(_NEGATION(text))


def _quotations(text: str) -> list[str]:
    """Return the quoted words of a text, each quotation once."""
    quotations: dict[str, None] = {}
    for match in QUOTED.finditer(text):
        folded = " ".join(match.group()[1:-1].casefold().split()).strip(".,;:!?…")
        if folded:
            quotations[folded] = None
    return list(quotations)


def _names(text: str) -> list[str]:
    in_order = words(text)
    inside: set[str] = set()
    for word in in_order:
        if not word.initial:
            inside.add(bare(word.text))
    names: dict[str, str] = {}
    for word, following in zip_longest(in_order, in_order[1:]):
        name = bare(word.text)
        if not may_be_name(name) or has_digit(name):
            continue
        if not word.initial or name in inside or not is_common_word(name) or _is_subject(name, following):
            names.setdefault(name.casefold(), name)
    return list(names.values())


def _is_subject(name: str, following: Word | None) -> bool:
    """Return whether a name that is also a function word has a verb of the third person after it."""
    if following is None or name.casefold() not in _NAME_OR_WORD:
        return False
    verb = following.text.casefold()
    return verb in _THIRD_PERSON or verb.endswith(("s", "ed"))


def may_be_name(word: str) -> bool:
    """Return whether a word has a capital and is not `I`, a date word, or a shouted common word."""
    if word.islower() or not any(map(str.isupper, word)):
        return False
    folded = word.casefold()
    if folded.replace("’", "'") in SUBJECT_I or folded in DATE_WORDS:
        return False
    is_shouted = len(word) > 1 and word.isupper()
    return not (is_shouted and is_common_word(word))


_EMPTY_WORDS = FUNCTION_WORDS | DATE_WORDS
#: Signs of writing systems without spaces between words, or with endings of one sign.
_PAIRED = pattern(r"[\u0900-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")


def content_tokens(text: str, min_letters: int = 3) -> frozenset[str]:
    """Return the stems of a text's words from so many letters, its numbers, and `not` if it denies something.

    Function words and dates do not count. In writing without spaces, as in Chinese, each pair of signs is a token.
    """
    tokens: set[str] = set()
    _, without_dates = find_dates(text)
    for number in find_numbers(without_dates):
        tokens.add(re.sub(r"[^\d.:]", "", number))
    for word in folded_words(text):
        if word in _EMPTY_WORDS:
            continue
        if not word.isascii() and _PAIRED().search(word):
            for start in range(max(1, len(word) - 1)):
                tokens.add(word[start : start + 2])
            continue
        beginning = stem(word)
        if len(beginning) >= _min_letters(word, min_letters):
            tokens.add(beginning)
    if is_negated(text):
        tokens.add("not")
    return frozenset(tokens)


def _min_letters(word: str, min_letters: int) -> int:
    """Return the number of letters from which a word counts; an acronym may be shorter than other words."""
    if word == word.upper():
        return min(4, min_letters)
    return min_letters
