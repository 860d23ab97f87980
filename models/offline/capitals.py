"""The names of a conversation, and their capitals where somebody types without any."""

import re
from collections.abc import Iterable
from functools import cache

from mnemic.models.offline.lexicon import DANGLING, MONTHS, NUMBER_WORDS, PERSONAL, STOP_WORDS, WEEKDAYS
from mnemic.models.offline.pieces import pattern, words
from mnemic.models.offline.text import fold
from mnemic.models.offline.verbs import FORMS
from mnemic.prompts.conversation import Line

_INSIDE = re.compile(r"(?<=[a-z,;] )[A-Z][\w-]*[^\W\d_]\b")
#: In an answer of the assistant, `contact: Sunniva` names somebody, too.
_BEHIND_COLON = re.compile(r"(?<=: )[A-Z][\w-]*[^\W\d_]\b")
#: Only somebody has a birthday or turns four.
_ONLY_SOMEBODY = pattern("<CAPITALS_ONLY_SOMEBODY>")
_AT_START = pattern("<CAPITALS_AT_START>")
_LINKS = frozenset({"and", "but", "so", "then", "because"})
_CAPITAL = re.compile(r"\b[A-Z][a-z]")
_LOWER = re.compile(r"(?<![\w'@./#-])[^\W\d_A-Z][\w-]*\b(?![@/])")
_NO_NAMES = frozenset({*MONTHS, *WEEKDAYS, *(f"{day}s" for day in WEEKDAYS), "I", "English"})
_LISTS = (
    "PERSON",
    "PET",
    "VEHICLE",
    "SPORT",
    "HOME",
    "EVENT",
    "WORKS",
    "PROFESSION",
    "ATTRIBUTE",
    "PROJECT",
    "GENERIC",
)


@cache
def _common() -> frozenset[str]:
    """Words that are seldom names when typed in lower case."""
    return frozenset({"nobody", "people", *NUMBER_WORDS}).union(
        STOP_WORDS, PERSONAL, DANGLING, words("NO_TOPIC"), words("ADVERB"), *map(words, _LISTS)
    )


def known_names(lines: Iterable[Line]) -> frozenset[str]:
    """Names of the speakers, and words written with a capital inside a sentence, also by the assistant."""
    given = [line for line in lines if line.role in ("user", "assistant")]
    names: set[str] = set()
    for line in given:
        text = fold(line.content)
        if line.role == "user":
            names.update(line.speaker.split())
            names.update(_INSIDE.findall(text))
            names.update(_somebody(text))
        else:
            names.update(name for name in _INSIDE.findall(text) if name.lower() not in _common())
            names.update(name for name in _BEHIND_COLON.findall(text) if is_rare(name.lower()))
    common = DANGLING | PERSONAL
    return frozenset(name for name in names - _NO_NAMES if name.lower() not in common)


def _somebody(text: str) -> set[str]:
    shape = _ONLY_SOMEBODY if _is_lower(text) else _AT_START
    found = (match["name"].lower().split() for match in shape.finditer(text))
    bare = (parts[1:] if parts[0] in _LINKS else parts for parts in found)
    return {word.capitalize() for parts in bare if all(map(is_rare, parts)) for word in parts}


def is_rare(word: str) -> bool:
    """Whether a word in lower case is likely to be a name."""
    return word not in _common() and word not in FORMS


def _is_lower(text: str) -> bool:
    return not _CAPITAL.search(text)


def restored(sentence: str, content: str, names: frozenset[str]) -> str:
    """The sentence of a message typed all in lower case, with the capitals of known names."""
    if not _is_lower(content):
        return sentence
    spelled = {name.lower(): name for name in names if is_rare(name.lower())}
    return _LOWER.sub(lambda match: spelled.get(match[0], match[0]), sentence)
