"""Find flaws in a database's set-up that would let a row be read, changed or lost against the rules.

The statements of `sql/doctor.sql` read the catalogs, and each class here is a row of the statement of its name.
Definitions are compared in `definitions.py`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import class_row

from mnemic.state.worker_threads import in_thread
from mnemic.storage.definitions import find_differences, read_definitions, recorded_definitions
from mnemic.storage.migrate import MINIMUM_SERVER, differences, is_old_vector
from mnemic.storage.schema import ADMIN_ROLE, OWNER_ROLE, QUEUE_SCHEMA, SERVICE_ROLE
from mnemic.storage.transaction import Row, load_statements

_SQL = load_statements("doctor")
#: Minor releases of older majors in which statistics do not leak rows past row security (CVE-2025-8713); they have the
#: earlier fixes too, and every 18 has all. A distribution's older release with the fix is refused, since a server
#: reports only its number.
FIXED_SERVERS: Final = (150014, 160010, 170006)
#: Roles of which neither the service nor the administrators nor the owner may be a member, but for their own.
_APART: Final = frozenset(
    {
        *(OWNER_ROLE, SERVICE_ROLE, ADMIN_ROLE, "pg_read_all_data", "pg_write_all_data"),
        *("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"),
    }
)
#: A problem, and the statement that repairs it, if there is one.
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


async def find_violations(connection: AsyncConnection) -> tuple[dict[str, list[SchemaViolation]], dict[str, list[str]]]:
    """Return violations, and differences that are harmless, by the names of the checks."""
    values = {"owner": OWNER_ROLE, "service": SERVICE_ROLE, "admin": ADMIN_ROLE}

    async def rows(record: type[Row], name: str) -> list[Row]:
        cursor = connection.cursor(row_factory=class_row(record))
        return await (await cursor.execute(_SQL[name], values)).fetchall()

    # the package's files are read while the server works
    definitions, _ = await asyncio.gather(read_definitions(connection), in_thread(recorded_definitions))
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
    for violations in found.values():
        violations.sort(key=lambda violation: violation[0])
    return found, notes


def _server(server: _Server) -> dict[str, list[SchemaViolation]]:
    minimum = MINIMUM_SERVER
    for number in FIXED_SERVERS:
        if number // 10000 == server.number // 10000:
            minimum = number
    vector = "pgvector is not enabled"
    if server.vector is not None:
        vector = f"pgvector {server.vector}"
    # another schema could hold a table that is found before ours
    path = {"mnemic", server.vector_schema or "mnemic"}
    is_on_path = server.schemas[:1] == ["mnemic"] and path <= {*server.schemas} <= {*path, QUEUE_SCHEMA, "public"}
    checks = [
        ("server", server.number >= minimum, f"Postgres {server.version}"),
        ("pgvector", server.vector is not None and not is_old_vector(server.vector), vector),
        ("encoding", server.encoding == "UTF8", server.encoding),
        ("search path", is_on_path, server.search_path),
        ("service role", server.session_user == server.current_user == SERVICE_ROLE, server.session_user),
        ("replication role", server.replication_role == "origin", server.replication_role),
    ]
    violations: dict[str, list[SchemaViolation]] = {}
    for check, has_passed, value in checks:
        if not has_passed:
            violations[check] = [(value, None)]
    return violations


def _migrations(recorded: list[tuple[str, str]] | None) -> list[SchemaViolation]:
    if recorded is None:
        return [("none has run, or their record cannot be read", None)]
    unfit, pending = differences(dict(recorded))
    for file in pending:
        unfit.append(f"{file.name} is not applied")
    return [(problem, None) for problem in unfit]


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
