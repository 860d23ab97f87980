"""The table of what people plainly say of themselves (attributes.txt), read once."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

#: Slots that tell which of several values is meant, such as whose name; all others hold a value.
TOPICS = frozenset({"topic", "kin", "owned"})
#: Slots that are read and not kept.
_PASSED_OVER = frozenset({"recently", "month"})
#: These may stand beside a verb, or at the end of a clause; the second ones only where values stand side by side.
_BESIDE = ("now|currently|still|just|recently|really|actually", "|also")
_AT_END = (
    "now|these days|nowadays|currently|at the moment|by the way|please|thanks",
    "|also|too|as well|very much|a lot",
)
_CAPITALS = "".join(sign for sign in map(chr, range(0x250)) if sign.isupper())
_WORDS = {"C": rf"(?-i:[{_CAPITALS}])[\w'&.-]*", "W": r"(?!(?:to|over|and)\b)[\w'&-]+"}


class Rule(NamedTuple):
    """One row: how something is said of oneself, and the sentence that is stored of it."""

    attribute: str
    #: A person has one value of it at a time.
    is_single: bool
    #: It says that a value no longer holds.
    is_end: bool
    category: str
    importance: int
    sentence: str
    stored: re.Pattern[str]
    clauses: tuple[re.Pattern[str], ...]


@cache
def rules() -> tuple[Rule, ...]:
    """The rows in their order."""
    slots: dict[str, str] = {}
    found: list[Rule] = []
    text = resources.files(__package__).joinpath("attributes.txt").read_text("utf-8")
    for block in re.split(r"\n+(?! )", re.sub(r"(?m)^#.*\n", "", text).strip()):
        head, *rest = (line.strip() for line in block.splitlines())
        if slot := re.match(r"<(\w+)> = ", head):
            shape = head[slot.end() :] + "".join(rest)
            slots[slot[1]] = re.sub(r"\b[CW]\b", lambda word: _WORDS[word[0]], shape)
        else:
            found.append(_rule(head, rest, slots))
    return tuple(found)


def _rule(head: str, clauses: list[str], slots: Mapping[str, str]) -> Rule:
    attribute, count, kind, sentence = (column.strip() for column in head.split("|"))
    category, importance = kind.split()
    is_single, is_end = count.endswith("one"), count.startswith("end")
    beside, at_end = (words[0] if is_single else "".join(words) for words in (_BESIDE, _AT_END))
    patterns = []
    for clause in clauses:
        shape = re.sub(r"^I (?:am |have |\(\?:have \)\?)?", lambda start: rf"{start[0]}(?:(?:{beside}) )?", clause)
        patterns.append(re.compile(rf"{_with_slots(shape, slots)}(?:,? (?:{at_end}))?", re.IGNORECASE))
    stored = re.compile(r"(?i)(?P<who>\S.{0,79}?)" + _with_slots(sentence[len("<who>") :], slots, literal=True))
    return Rule(attribute, is_single, is_end, category, int(importance), sentence, stored, tuple(patterns))


def _with_slots(text: str, slots: Mapping[str, str], *, literal: bool = False) -> str:
    """The text as a pattern, each slot in it a group of its name."""
    found = ""
    for place, part in enumerate(re.split(r"<(\w+)>", text)):
        if place % 2 == 0:
            found += re.escape(part) if literal else part
        else:
            shape = _with_slots(slots[part], slots)
            found += f"(?:{shape})" if part in _PASSED_OVER else f"(?P<{part}>{shape})"
    return found
