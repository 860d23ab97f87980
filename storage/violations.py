"""Everything about a database's set-up that would let a row be seen, changed or lost that should not be.

The statements of `sql/doctor.sql` read the catalogs, and each class here is a row of the statement of its name.
Definitions are compared in `definitions.py`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import class_row

from mnemic.storage.definitions import find_differences, read_definitions, recorded_definitions
from mnemic.storage.migrate import MINIMUM_SERVER, differences, is_old_vector
from mnemic.storage.schema import ADMIN_ROLE, OWNER_ROLE, QUEUE_SCHEMA, SERVICE_ROLE
from mnemic.storage.transaction import Row, load_statements

_SQL = load_statements("doctor")
#: The minor releases of older majors that keep row security from leaking through statistics (CVE-2025-8713), and with
#: that the earlier holes too; every 18 has the fix. A distribution that mended an older one without its number is
#: refused all the same, for nothing else can be asked of a server.
FIXED_SERVERS: Final = (150014, 160010, 170006)
#: Roles of which neither the service nor the administrators nor the owner may be a member, but for their own.
_APART: Final = frozenset(
    {
        *(OWNER_ROLE, SERVICE_ROLE, ADMIN_ROLE, "pg_read_all_data", "pg_write_all_data"),
        *("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"),
    }
)
#: What was found, and the statement that mends it, if one does.
SchemaViolation = tuple[str, str | None]


class _Server(NamedTuple):
    version: str
    number: int
    encoding: str
    replication_role: str
    search_path: str
    schemas: list[str]
    session_user: str
    current_user: str
    vector: str | None
    vector_schema: str | None
    has_record: bool | None


class _Role(NamedTuple):
    name: str
    quoted: str
    #: The role of Mnemic that this role takes the place of.
    kind: str
    powers: list[str]
    member_of: list[str]


class _View(NamedTuple):
    quoted: str
    kind: str
    is_invoker: bool


async def find_offences(connection: AsyncConnection) -> tuple[dict[str, list[SchemaViolation]], dict[str, list[str]]]:
    """Return offences, and differences that are harmless, by the names of the checks."""
    values = {"owner": OWNER_ROLE, "service": SERVICE_ROLE, "admin": ADMIN_ROLE}

    async def rows(record: type[Row], name: str) -> list[Row]:
        cursor = connection.cursor(row_factory=class_row(record))
        return await (await cursor.execute(_SQL[name], values)).fetchall()

    # the package's files are read while the server works
    definitions, _ = await asyncio.gather(read_definitions(connection), asyncio.to_thread(recorded_definitions))
    (server,) = await rows(_Server, "server")
    found = defaultdict(list, _server(server))
    found["powers"] += _powers(await rows(_Role, "roles"))
    found["views"] += _views(await rows(_View, "views"))
    recorded: list[tuple[str, str]] | None = None
    if server.has_record:
        recorded = await (await connection.execute(_SQL["record"])).fetchall()
    found["migrations"] += _migrations(recorded)
    notes: dict[str, list[str]] = defaultdict(list)
    if not found["migrations"]:  # a database of another release has other definitions
        for difference in find_differences(definitions, server.vector_schema or "public"):
            if difference.is_harmless:
                notes[difference.check].append(difference.found)
            else:
                found[difference.check].append((difference.found, difference.statement))
    return {check: sorted(offences, key=lambda offence: offence[0]) for check, offences in found.items()}, notes


def _server(server: _Server) -> dict[str, list[SchemaViolation]]:
    fixed = next((number for number in FIXED_SERVERS if number // 10000 == server.number // 10000), MINIMUM_SERVER)
    vector = "pgvector is not enabled" if server.vector is None else f"pgvector {server.vector}"
    # another schema could hold a table that is found before ours
    path = {"mnemic", server.vector_schema or "mnemic"}
    is_on_path = server.schemas[:1] == ["mnemic"] and path <= {*server.schemas} <= {*path, QUEUE_SCHEMA, "public"}
    checks = [
        ("server", server.number >= fixed, f"Postgres {server.version}"),
        ("pgvector", server.vector is not None and not is_old_vector(server.vector), vector),
        ("encoding", server.encoding == "UTF8", server.encoding),
        ("search path", is_on_path, server.search_path),
        ("service role", server.session_user == server.current_user == SERVICE_ROLE, server.session_user),
        ("replication role", server.replication_role == "origin", server.replication_role),
    ]
    return {check: [] if is_sound else [(found, None)] for check, is_sound, found in checks}


def _migrations(recorded: list[tuple[str, str]] | None) -> list[SchemaViolation]:
    if recorded is None:
        return [("none has run, or their record cannot be read", None)]
    unfit, pending = differences(dict(recorded))
    return [(difference, None) for difference in (*unfit, *(f"{file.name} is not applied" for file in pending))]


def _powers(roles: list[_Role]) -> Iterator[SchemaViolation]:
    for role in roles:
        for power in role.powers:
            yield f"{role.name} is {power}", f"alter role {role.quoted} no{power}"
        if "superuser" not in role.powers:
            for group in _APART.intersection(role.member_of) - {role.kind}:
                yield f"{role.name} is a member of {group}", f"revoke {group} from {role.quoted}"


def _views(views: list[_View]) -> Iterator[SchemaViolation]:
    for view in views:
        if view.kind == "m":
            yield view.quoted, f"drop materialized view {view.quoted}"
        elif not view.is_invoker:
            yield view.quoted, f"alter view {view.quoted} set (security_invoker = true)"
