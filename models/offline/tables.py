"""Reads the tables beside this module: named pieces of patterns, and the families of statements worth keeping."""

import re
from functools import cache
from pathlib import Path
from typing import get_args

from mnemic.models.offline.family import Family, Need
from mnemic.models.offline.predicate import ASPECTS, Aspect
from mnemic.prompts.categories import CATEGORIES

_HERE = Path(__file__).parent
_PIECE = re.compile(r"<([A-Z_]+)>")


def _entries(name: str) -> list[str]:
    """The entries of a table; an indented line goes on with the one before it."""
    entries: list[str] = []
    for line in (_HERE / name).read_text(encoding="utf-8").splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += f"\n{line.strip()}"
        elif line and not line.startswith("#"):
            entries.append(line)
    return entries


@cache
def _pieces() -> dict[str, str]:
    pieces: dict[str, str] = {}
    for entry in _entries("shapes.txt"):
        name, sign, value = entry.replace("\n", " ").split(" ", 2)
        pieces[name] = value if sign == "=" else expand(value, pieces)
    return pieces


def words(name: str) -> frozenset[str]:
    """The words of a list in `shapes.txt`."""
    return frozenset(word.replace("_", " ") for word in _pieces()[name].split())


def expand(pattern: str, pieces: dict[str, str] | None = None) -> str:
    """The pattern with every `<NAME>` replaced by what `shapes.txt` says of it."""
    known = _pieces() if pieces is None else pieces
    return _PIECE.sub(lambda match: _inside(known[match[1]]), pattern)


def _inside(value: str) -> str:
    """A list of words as a pattern, the longest first; a pattern as it is."""
    if not re.fullmatch(r"[\w'-]+(?: [\w'-]+)+", value):
        return value
    return "(?:" + "|".join(sorted((word.replace("_", " ") for word in value.split()), key=lambda w: (-len(w), w))) + ")"


@cache
def pattern(text: str) -> re.Pattern[str]:
    """A compiled pattern with the pieces of `shapes.txt` in it."""
    return re.compile(expand(text))


@cache
def families(name: str) -> tuple[Family, ...]:
    """The families of one table, in its order."""
    return tuple(_family(entry) for entry in _entries(f"families_of_{name}.txt"))


def _family(entry: str) -> Family:
    """One row: name | verbs | how they stand in time | category and importance | what else, then a pattern."""
    head, _, rest = entry.partition("\n")
    name, verbs, times, kind, *others = (column.strip() for column in head.split("|"))
    category, importance = kind.split()
    needs = set(others[0].split()) if others else set()
    need: Need | None = next((known for known in get_args(Need) if known in needs), None)
    return Family(
        name=name,
        lemmas=frozenset(_PIECE.sub(lambda match: _pieces()[match[1]], verbs).split()),
        aspects=_aspects(times),
        rest=pattern(rest.replace("\n", "")) if rest else None,
        category=next(known for known in CATEGORIES if known == category),
        importance=int(importance),
        needs=need,
        negated=True if "denied" in needs else False if "affirmed" in needs else None,
    )


def _aspects(times: str) -> frozenset[Aspect]:
    """`now` and `ever` stand for several."""
    groups: dict[str, frozenset[Aspect]] = {
        "now": frozenset({"present", "progressive", "perfect progressive", "perfect"}),
        "ever": ASPECTS - {"can"},
    }
    found: frozenset[Aspect] = frozenset()
    for time in times.split(","):
        found |= groups.get(time.strip(), frozenset(known for known in ASPECTS if known == time.strip()))
    return found
