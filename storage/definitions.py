"""Compare all objects in Mnemic's schemas with those of a fresh set-up, whose definitions ship with the package.

The record `sql/definitions.txt` has one line for each object: kind, name and definition. `make definitions` writes it
from a fresh set-up. A record in the database could be changed together with the objects, and a scratch schema needs
rights that the service must not have.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any, Final, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import class_row

from mnemic.storage.schema import ADMIN_ROLE, OWNER_ROLE, QUEUE_SCHEMA, SERVICE_ROLE, schema_files
from mnemic.storage.transaction import load_statements

_SQL = load_statements("definitions")
RECORD: Final = "definitions.txt"
#: Placeholder for the schema of pgvector, which the operator chooses.
_VECTOR: Final = "@vector@"
#: Settings of a role or of the database that change which rows exist, what is recorded, or whether a commit lasts.
#: Others are the operator's tuning.
UNSAFE_SETTINGS: Final = (
    *("search_path", "session_replication_role", "row_security", "role", "synchronous_commit"),
    *("default_transaction_read_only", "default_transaction_isolation", "transform_null_equals", "array_nulls"),
    *("standard_conforming_strings", "backslash_quote", "ignore_system_indexes", "allow_system_table_mods"),
    *("zero_damaged_pages", "ignore_checksum_failure", "default_table_access_method"),
    *("session_preload_libraries", "local_preload_libraries"),
)
#: The check that reports each kind of object; all other kinds are reported with the tables.
_CHECKS: Final = {
    **dict.fromkeys(("grant", "owner's right", "default privilege"), "privileges"),
    **dict.fromkeys(
        ("inheritance", "publication", "subscription", "foreign key", "event trigger", "extension"), "attachments"
    ),
    "policy": "policies",
    "trigger": "triggers",
    "rule": "rules",
    "function": "functions",
    "setting": "settings",
    "membership": "powers",
}
_SEARCH_PATHS: Final = frozenset(f"search_path of {role}" for role in (SERVICE_ROLE, ADMIN_ROLE))
#: Libraries whose own statements make tables: a pattern of the names or tables of their objects, and the kinds of
#: objects that the library defines; None: all kinds.
_LIBRARIES: Final[dict[str, tuple[str, frozenset[str] | None]]] = {
    "langgraph-checkpoint-postgres": (r"mnemic\.checkpoint", frozenset({"column", "constraint", "index"})),
    "procrastinate": (rf"(function |procedure |schema )?{QUEUE_SCHEMA}\b", None),
}
_ALTER_COLUMN: Final = "alter table {table} alter column {name} "
#: The statement that gives an object the recorded value of an aspect, and the one for an aspect that has no value.
_STATEMENTS: Final[dict[tuple[str, str], tuple[str | None, str | None]]] = {
    ("table", "row security"): (
        "alter table {object} enable row level security, force row level security",
        "alter table {object} disable row level security, no force row level security",
    ),
    ("table", "persistence"): (None, "alter table {object} set logged"),
    ("table", "vacuum"): (None, "alter table {object} reset (autovacuum_enabled, toast.autovacuum_enabled)"),
    ("column", "type"): (_ALTER_COLUMN + "type {expected} using {name}::{expected}", None),
    ("column", "collation"): (
        _ALTER_COLUMN + "type {type} collate {expected}",
        _ALTER_COLUMN + 'type {type} collate "default"',
    ),
    ("column", "not null"): (_ALTER_COLUMN + "set not null", _ALTER_COLUMN + "drop not null"),
    ("column", "default"): (_ALTER_COLUMN + "set default {expected}", _ALTER_COLUMN + "drop default"),
    ("column", "statistics"): (_ALTER_COLUMN + "set statistics {expected}", _ALTER_COLUMN + "set statistics -1"),
    ("constraint", "definition"): (
        "alter table {table} drop constraint {name}, add constraint {name} {expected}",
        None,
    ),
    ("constraint", "not validated"): (None, "alter table {table} validate constraint {name}"),
    ("constraint", "triggers off"): (None, "alter table {table} enable trigger all"),
    ("constraint", "index"): (None, "reindex table {table}"),
    ("index", "definition"): ("drop index {object}; {expected}", None),
    ("index", "state"): (None, "reindex index {object}"),
    ("trigger", "definition"): ("drop trigger {object}; {expected}", None),
    ("trigger", "state"): (None, "alter table {table} enable trigger {name}"),
    ("sequence", "definition"): ("alter sequence {object} {expected}", None),
    ("sequence", "persistence"): (None, "alter sequence {object} set logged"),
    ("grant", "grant option"): (None, "revoke grant option for {right} from {holder}"),
}
#: The statement that makes a missing object.
_MAKING: Final = {
    "constraint": "alter table {table} add constraint {name} {definition}",
    "index": "{definition}",
    "trigger": "{definition}",
    "grant": "grant {object}",
}


class Definition(NamedTuple):
    """One object of the database."""

    kind: str
    object: str
    #: Its aspects by their names, as JSON; an aspect that has the usual value is left out.
    definition: str
    #: The statement that takes it away.
    dropping: str | None = None
    #: Whether it changes nothing if the package has no such object.
    is_harmless: bool = False

    @property
    def title(self) -> str:
        """Its kind and name, as a finding shows them."""
        return self.object if _CHECKS.get(self.kind) == "privileges" else f"{self.kind} {self.object}"

    @property
    def aspects(self) -> dict[str, Any]:
        """The definition's parts by their names."""
        aspects: dict[str, Any] = json.loads(self.definition)
        return aspects


class Difference(NamedTuple):
    """One way in which the database differs from a fresh set-up."""

    check: str
    found: str
    #: The statement that mends it, if one does.
    statement: str | None
    is_harmless: bool = False


async def read_definitions(connection: AsyncConnection) -> list[Definition]:
    """Return all objects in Mnemic's schemas, and those that act on them; the search path is as before."""
    values = {"owner": OWNER_ROLE, "service": SERVICE_ROLE, "admin": ADMIN_ROLE, "queue": QUEUE_SCHEMA}
    cursor = connection.cursor(row_factory=class_row(Definition))
    async with connection.transaction(force_rollback=True):
        await connection.execute(_SQL["plain_names"])
        await cursor.execute(_SQL["definitions"], {**values, "settings": list(UNSAFE_SETTINGS)})
        return await cursor.fetchall()


def as_record(definitions: Iterable[Definition]) -> str:
    """Return the text of the record for the objects of a fresh set-up."""
    text = ""
    for name in _LIBRARIES:
        text += f"library\t{name}\t{_checksum(name)}\n"
    for one in sorted(definitions):
        # memberships and the operator's settings belong to the server
        if one.kind != "membership" and not (one.kind == "setting" and one.is_harmless):
            text += f"{one.kind}\t{one.object}\t{one.definition}\n"
    return text


def find_differences(definitions: Iterable[Definition], vector_schema: str) -> list[Difference]:
    """Compare the objects of a database with those of a fresh set-up.

    Args:
        definitions: all objects of the database.
        vector_schema: the name of pgvector's schema.
    """
    recorded, other_releases = recorded_definitions()
    present: dict[tuple[str, str], Definition] = {}
    for one in definitions:
        if not _is_of(one, other_releases):
            present[one.kind, one.object] = one
    differences: list[Difference] = []
    for name in other_releases:
        note = f"{name} has another release than this version of Mnemic knows: not compared"
        differences.append(Difference("tables", note, None, is_harmless=True))
    for one in _without_parts(_absent(recorded, present)):
        differences.append(_missing(one))
    for one in _without_parts(_absent(present, recorded)):
        differences.append(_extra(one))
    for key, one in present.items():
        if key in recorded and recorded[key].definition != one.definition:
            differences += _different(one, recorded[key])
    return [_in_schema(difference, vector_schema) for difference in differences]


def _absent(
    objects: Mapping[tuple[str, str], Definition], others: Mapping[tuple[str, str], Definition]
) -> list[Definition]:
    """Return the objects that the others lack."""
    return [one for key, one in objects.items() if key not in others]


def _in_schema(difference: Difference, vector_schema: str) -> Difference:
    """Return the difference with the name of pgvector's schema."""
    statement = difference.statement
    if statement:
        statement = statement.replace(_VECTOR, vector_schema)
    return difference._replace(found=difference.found.replace(_VECTOR, vector_schema), statement=statement)


def _missing(one: Definition) -> Difference:
    template = _MAKING.get(one.kind)
    statement = template.format(**_names(one), definition=one.aspects.get("definition")) if template else None
    return Difference(_check(one), f"{one.title} (missing)", statement)


def _extra(one: Definition) -> Difference:
    problem = "missing" if one.kind == "owner's right" else "not Mnemic's"
    return Difference(_check(one), f"{one.title} ({problem})", one.dropping, one.is_harmless)


def _different(one: Definition, expected: Definition) -> Iterator[Difference]:
    """Yield a difference for each check and statement, with the aspects that they concern."""
    aspects, recorded = one.aspects, expected.aspects
    concerned: dict[tuple[str, str | None], list[str]] = {}
    for aspect in sorted({*aspects, *recorded}):
        if aspects.get(aspect) != recorded.get(aspect):
            check = "ownership" if aspect == "owner" else _check(one)
            if aspect == "row security":
                check = aspect
            statement = _statement(one, aspect, recorded)
            concerned.setdefault((check, statement), []).append(aspect)
    for (check, statement), names in concerned.items():
        yield Difference(check, f"{one.title} ({', '.join(names)})", statement)


def _statement(one: Definition, aspect: str, recorded: dict[str, Any]) -> str | None:
    """Return the statement that gives the object the recorded value of an aspect."""
    if aspect == "owner":
        return f"alter {recorded.get('kind', one.kind)} {one.object} owner to {recorded['owner']}"
    setting, resetting = _STATEMENTS.get((one.kind, aspect), (None, None))
    template = setting if aspect in recorded else resetting
    return template and template.format(**_names(one), type=recorded.get("type"), expected=recorded.get(aspect))


def _names(one: Definition) -> dict[str, str]:
    """Return the parts of an object's name that its statements need."""
    name, _, table = one.object.rpartition(" on ")
    right, _, holder = one.object.rpartition(" to ")
    return {"object": one.object, "name": name, "table": table, "right": right, "holder": holder}


def _check(one: Definition) -> str:
    """Return the name of the check that reports the object."""
    if one.object in _SEARCH_PATHS:
        return "search path"
    if one.kind in ("function", "type") and one.object.startswith(f"{QUEUE_SCHEMA}."):
        return "queue"
    return _CHECKS.get(one.kind, "tables")


def _without_parts(objects: list[Definition]) -> Iterator[Definition]:
    """Yield the objects that do not come and go with another one, as columns with a table or grants with a function."""
    schemas = tuple(f"{one.object}." for one in objects if one.kind == "schema")
    places = {one.object for one in objects if one.kind == "table"}
    places |= {f"{one.kind} {one.object}" for one in objects if one.kind in ("function", "schema")}
    for one in objects:
        place = _place(one)
        if one.object.startswith(schemas) or place.startswith(schemas):
            continue
        if one.kind in ("schema", "table") or place not in places:
            yield one


def _place(one: Definition) -> str:
    """Return the table, function or schema that the object belongs to, or its own name."""
    if one.kind == "index":
        return str(one.aspects["definition"]).partition(" ON ")[2].partition(" USING ")[0]
    _, _, place = one.object.rpartition(" on ")
    if _CHECKS.get(one.kind) == "privileges":
        return place.rpartition(" to ")[0]
    return place


def _is_of(one: Definition, libraries: Iterable[str]) -> bool:
    """Return whether one of the libraries defines the object."""
    for library in libraries:
        pattern, kinds = _LIBRARIES[library]
        if (kinds is None or one.kind in kinds) and re.match(pattern, _place(one)):
            return True
    return False


@cache
def recorded_definitions() -> tuple[dict[tuple[str, str], Definition], list[str]]:
    """Return the recorded objects, and the libraries whose installed release is another one and makes other objects."""
    text = resources.files("mnemic.storage.sql").joinpath(RECORD).read_text(encoding="utf-8")
    changed: list[str] = []
    objects: dict[tuple[str, str], Definition] = {}
    for line in text.splitlines():  # the libraries come first
        kind, name, definition = line.split("\t")
        row = Definition(kind, name, definition)
        if row.kind == "library":
            if row.definition != _checksum(row.object):
                changed.append(row.object)
        elif not _is_of(row, changed):
            objects[row.kind, row.object] = row
    return objects, changed


def _checksum(library: str) -> str:
    """Return a digest of the statements that make the library's tables."""
    texts = [file.text for file in schema_files() if file.name.startswith(f"{library} ")]
    return sha256("\n".join(texts).encode()).hexdigest()
