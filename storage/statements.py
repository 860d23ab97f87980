"""Reads the named statements of a `.sql` file: `-- name --`, then a comment, then the statement."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import LiteralString, cast

_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_VALUE = re.compile(r"%\((\w+)\)[sb]")


def load_statements(noun: str) -> Mapping[str, LiteralString]:
    """All statements of `storage/sql/<noun>.sql` by name; they ship with the package, so they count as literal."""
    text = resources.files("mnemic.storage.sql").joinpath(f"{noun}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    statements = {name: cast(LiteralString, body.strip()) for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return MappingProxyType(statements)


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
