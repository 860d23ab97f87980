"""Reads the named statements of a `.sql` file: `-- name --`, then a comment, then the statement."""

import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import LiteralString, cast

_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)


def load_statements(noun: str) -> Mapping[str, LiteralString]:
    """All statements of `storage/sql/<noun>.sql` by name; they ship with the package, so they count as literal."""
    text = resources.files("mnemic.storage.sql").joinpath(f"{noun}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    statements = {name: cast(LiteralString, body.strip()) for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return MappingProxyType(statements)
