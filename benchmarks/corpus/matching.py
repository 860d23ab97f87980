"""Which formed memory counts as which expected fact (the rule is explained in the corpus' README)."""

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from mnemic.state.records import Memory

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One fact a careful reader wants remembered."""

    id: str
    session: str
    scope_key: str
    statement: str
    must: Groups
    kind: str
    current: bool
    replaced_by: str | None
    #: Told in confidence, or of somebody's health, money or troubles.
    private: bool


@dataclass(frozen=True, kw_only=True)
class Trap:
    """Something that must not become a memory."""

    id: str
    session: str
    why: str
    never: Groups


def expectations() -> tuple[list[Expected], list[Trap]]:
    """Return the lists of `expected.json`."""
    listed = json.loads(resources.files("mnemic.examples").joinpath("conversations/expected.json").read_text("utf-8"))
    facts = [
        Expected(
            id=row["id"],
            session=row["session"],
            scope_key=f"{row['scope']}:{row['owner']}",
            statement=row["statement"],
            must=_groups(row["must"]),
            kind=row["kind"],
            current=row["current"],
            replaced_by=row["replaced_by"],
            private=row["id"] in listed["private"],
        )
        for row in listed["facts"]
    ]
    traps = [
        Trap(id=row["id"], session=row["session"], why=row["why"], never=_groups(row["never"]))
        for row in listed["traps"]
    ]
    return facts, traps


def matches(groups: Groups, text: str) -> bool:
    """Whether for every group one of its alternatives stands in the text."""
    return all(any(_pattern(phrase).search(text) for phrase in group) for group in groups)


def says(fact: Expected, memory: Memory) -> bool:
    """Whether the memory says this fact to whom it is expected of, whenever it was formed.

    What is a person's own may stand with that person or, unless it is private, with the team; a team's affairs may also
    stand with the one who told them.
    """
    scope = fact.scope_key.partition(":")[0]
    is_there = memory.scope_key == fact.scope_key or scope == "group"
    is_shared = memory.scope_key.startswith("group:") and not fact.private
    return matches(fact.must, memory.content) and (is_there or is_shared)


def is_about(fact: Expected, memory: Memory) -> bool:
    """Whether the memory says this fact, and comes from its session."""
    return memory.source_session_id == fact.session and says(fact, memory)


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    words = [re.escape(word.removesuffix("*")) + (r"\w*" if word.endswith("*") else "") for word in phrase.split()]
    joined = r"\W+".join(words)
    return re.compile(rf"(?<!\w){joined}(?!\w)", re.IGNORECASE)


def _groups(rows: Any) -> Groups:
    return tuple(tuple(group) for group in rows)
