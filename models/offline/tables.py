"""Reads the families of statements worth keeping from the tables beside this module."""

import re
from functools import cache
from typing import get_args

from mnemic.models.offline.family import Family, Need
from mnemic.models.offline.pieces import entries, pattern, words
from mnemic.models.offline.predicate import ASPECTS, Aspect
from mnemic.prompts.categories import CATEGORIES

_LIST = re.compile(r"<([A-Z_]+)>")
_SEVERAL: dict[str, frozenset[Aspect]] = {
    "now": frozenset({"present", "progressive", "perfect progressive", "perfect"}),
    "ever": ASPECTS - {"can"},
}


@cache
def families(name: str) -> tuple[Family, ...]:
    """The families of one table, in its order."""
    return tuple(_family(*entry) for entry in entries(f"families_of_{name}.txt"))


def _family(head: str, *rest: str) -> Family:
    """One row: name | verbs | how they stand in time | category and importance | what else, then a pattern."""
    name, verbs, times, kind, *others = (column.strip() for column in head.split("|"))
    category, importance = kind.split()
    needs = set(others[0].split()) if others else set()
    need: Need | None = next((known for known in get_args(Need) if known in needs), None)
    return Family(
        name=name,
        lemmas=frozenset(_LIST.sub(lambda match: " ".join(words(match[1])), verbs).split()),
        aspects=frozenset[Aspect]().union(*map(_aspects, times.split(","))),
        rest=pattern("".join(rest)) if rest else None,
        category=next(known for known in CATEGORIES if known == category),
        importance=int(importance),
        needs=need,
        negated=True if "denied" in needs else False if "affirmed" in needs else None,
    )


def _aspects(time: str) -> frozenset[Aspect]:
    """The aspect of this name; `now` and `ever` stand for several."""
    name = time.strip()
    return _SEVERAL.get(name, frozenset(known for known in ASPECTS if known == name))
