"""Reads the named statements of a `.sql` file: `-- name --`, then a comment, then the statement."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType
from typing import LiteralString, cast

_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_ESCAPED, _BACKSLASHED = re.compile(r'["\\]'), r"\\\g<0>"
_PART = re.compile(r"/\*(\w+)\*/(.*?)/\*end\*/", re.DOTALL)
_VALUE = re.compile(r"%\((\w+)\)[sb]")


def load_statements(noun: str) -> Mapping[str, LiteralString]:
    """All statements of `storage/sql/<noun>.sql` by name; they ship with the package, so they count as literal."""
    text = resources.files("mnemic.storage.sql").joinpath(f"{noun}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    statements = {name: cast(LiteralString, body.strip()) for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return MappingProxyType(statements)


@cache
def with_parts(statement: LiteralString, *wanted: str) -> LiteralString:
    """The statement without the parts `/*name*/ ... /*end*/` that are not wanted: even asleep they cost time."""
    return _PART.sub(lambda part: part[2] if part[1] in wanted else "", statement)


@dataclass(frozen=True)
class Numbered:
    """A statement with `$1`, `$2` ... in the place of its named values, and their names in that order."""

    text: bytes
    names: tuple[str, ...]


@cache
def numbered(statement: LiteralString) -> Numbered:
    """The statement as the server takes it.

    psycopg does the same, but forgets what is longer than 4,096 characters: 0.35 ms of every search.
    """
    names = tuple(dict.fromkeys(_VALUE.findall(statement)))
    places = {name: f"${place}" for place, name in enumerate(names, start=1)}
    text = _VALUE.sub(lambda value: places[value[1]], statement).replace("%%", "%")
    return Numbered(text.encode(), names)


@lru_cache(maxsize=1024)
def array_text(elements: tuple[str, ...]) -> str:
    """Texts as an array that Postgres reads: a list costs psycopg ten times as much, at each use of the same one."""
    return "{" + ",".join(f'"{_ESCAPED.sub(_BACKSLASHED, element)}"' for element in elements) + "}"
