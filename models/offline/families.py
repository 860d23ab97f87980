"""Which family a statement belongs to; the first that fits wins, so the weightier ones come first."""

from typing import Literal

from mnemic.models.offline.family import Family
from mnemic.models.offline.predicate import Predicate
from mnemic.models.offline.tables import families

About = Literal["person", "team", "project", "topic"]


def family_of(predicate: Predicate, rest: str, about: About, *, dated: bool) -> Family | None:
    """The family of a predicate with this rest, or None when it is nothing that lasts."""
    names = {
        "person": ("life", "doing", "more"),
        "team": ("teams", "life", "doing", "more"),
        "project": ("projects",),
        "topic": ("topics",),
    }[about]
    rows = (family for name in names for family in families(name))
    return next((family for family in rows if family.fits(predicate, rest, dated=dated)), None)
