"""What a rewritten text keeps of the details of its sources."""

import re
from collections.abc import Sequence
from typing import Literal

from mnemic.policy.text.details import details
from mnemic.policy.text.words import folded_words

_Kind = Literal["name", "number", "date", "quoted"]


def missing_details(sources: Sequence[str], text: str) -> tuple[str, ...]:
    """Names, numbers, dates and quoted words of the sources that the text lacks, in the order of the sources."""
    present = _Present(text)
    return tuple(detail for kind, detail in _wanted(sources) if not present.holds(kind, detail))


def kept_share(sources: Sequence[str], text: str) -> float:
    """The share (0..1) of the sources' distinct details that the text keeps; 1.0 where there are none."""
    present = _Present(text)
    held = [present.holds(kind, detail) for kind, detail in _wanted(sources)]
    return sum(held) / len(held) if held else 1.0


def _wanted(sources: Sequence[str]) -> list[tuple[_Kind, str]]:
    """Every distinct detail with its kind; a detail is the same in any case."""
    distinct: dict[tuple[_Kind, str], str] = {}
    for source in sources:
        found = details(source)
        kinds: dict[_Kind, tuple[str, ...]] = {
            "name": found.names,
            "number": found.numbers,
            "date": found.dates,
            "quoted": found.quoted,
        }
        for kind, of_kind in kinds.items():
            for detail in of_kind:
                distinct.setdefault((kind, detail.casefold()), detail)
    return [(kind, detail) for (kind, _), detail in distinct.items()]


class _Present:
    """What a text holds, ready to be asked."""

    def __init__(self, text: str) -> None:
        found = details(text)
        self._words = set(folded_words(text))
        self._dates = [set(date.split()) for date in found.dates]
        # a year that stands within a date is there as well; a day of the month is no number of its own
        self._numbers = {*found.numbers, *(part for date in self._dates for part in date if len(part) == 4)}
        self._folded = " ".join(text.casefold().split())

    def holds(self, kind: _Kind, detail: str) -> bool:
        """Whether the text holds the detail; a fuller date holds a less exact one."""
        match kind:
            case "name":
                return detail.casefold() in self._words
            case "number":
                return detail in self._numbers
            case "date":
                return any(set(detail.split()) <= date for date in self._dates)
            case "quoted":
                return re.search(rf"(?<!\w){re.escape(detail)}(?!\w)", self._folded) is not None
