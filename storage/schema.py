"""The files of the schema: numbered tables, each applied once, and rules, made anew whenever their text changes."""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from mnemic.storage.isolation import isolation

#: The record's name for functions, triggers, policies and rights, which stand and fall together.
RULES: Final = "rules"
#: Before and after the functions.
_DROP, _RIGHTS = "drop.sql", "rights.sql"
#: A function's name and its body; an expression has none.
_FUNCTION = re.compile(r"^create function (\w+)\((?:(?!^create ).)*?\$\$(.*?)\$\$", re.DOTALL | re.MULTILINE)
_TRIGGER = re.compile(r"^create trigger (\w+) [^;]*? on (\w+)\b[^;]*? execute function (\w+)\(\)", re.MULTILINE)
_GRANT = re.compile(r"^grant ([^;]+?) on (function |schema |)([\w\s,]+?) to ([\w\s,]+);", re.MULTILINE)
_RIGHT = re.compile(r"(\w+)(?:\s*\(([^)]*)\))?")


class SchemaFile(NamedTuple):
    """What is applied in one transaction."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Digest that tells whether the text was changed since it was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class Trigger(NamedTuple):
    """One trigger and what it calls."""

    table: str
    name: str
    function: str


@cache
def schema_files() -> tuple[SchemaFile, ...]:
    """The files of tables in their order, and the rules."""
    tables = _read("tables")
    return (*(SchemaFile(name, tables[name]) for name in sorted(tables)), SchemaFile(RULES, _rules()))


@cache
def _rules() -> str:
    texts = _read("functions")
    drop, rights = texts.pop(_DROP), texts.pop(_RIGHTS)
    return "\n".join([drop, *(texts[name] for name in sorted(texts)), isolation(), rights])


def bodies() -> dict[str, str]:
    """The body of each function that has one."""
    return dict(_FUNCTION.findall(_rules()))


def triggers() -> list[Trigger]:
    """Every trigger."""
    return [Trigger(table, name, function) for name, table, function in _TRIGGER.findall(_rules())]


def grants() -> set[tuple[str, str, str]]:
    """Grantee, privilege, and a table, `table.column`, `function name` or `schema name`."""
    return {
        (role, right, f"{kind}{name}" + (f".{column}" if column else ""))
        for rights, kind, names, roles in _GRANT.findall(_rules())
        for right, columns in _RIGHT.findall(rights)
        for column in _parts(columns)
        for name in _parts(names)
        for role in _parts(roles)
    }


def _parts(listed: str) -> Iterable[str]:
    return (part.strip() for part in listed.split(","))


def _read(folder: str) -> dict[str, str]:
    entries = resources.files(f"mnemic.storage.sql.{folder}").iterdir()
    return {entry.name: entry.read_text(encoding="utf-8") for entry in entries if entry.name.endswith(".sql")}
