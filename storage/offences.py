"""Everything about a database's set-up that would let a row be seen, changed or lost that should not be.

The statements of `sql/doctor.sql` read the catalogs, and each class here is a row of the statement of its name. The
functions, one for each check, compare these rows with what the package makes.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import class_row

from mnemic.storage.migrate import MINIMUM_SERVER, differences, is_old_vector
from mnemic.storage.schema import ADMIN_ROLE, OWNER_ROLE, POLICIES, SERVICE_ROLE, bodies, grants, triggers
from mnemic.storage.transaction import Row, load_statements

_SQL = load_statements("doctor")
#: The minor releases of older majors that keep row security from leaking through statistics (CVE-2025-8713), and with
#: that the earlier holes too; every 18 has the fix. A distribution that mended an older one without its number is
#: refused all the same, for nothing else can be asked of a server.
FIXED_SERVERS: Final = (150014, 160010, 170006)
#: Roles of which neither the service nor the administrators may be a member, but for their own.
_APART: Final = frozenset({OWNER_ROLE, SERVICE_ROLE, ADMIN_ROLE, "pg_read_all_data", "pg_write_all_data"})
#: What was found, and the statement that mends it, if one does.
Offence = tuple[str, str | None]


class _Server(NamedTuple):
    version: str
    number: int
    encoding: str
    replication_role: str
    search_path: str
    is_on_path: bool
    session_user: str
    current_user: str
    vector: str | None
    schema_owner: str | None


class _Role(NamedTuple):
    name: str
    quoted: str
    #: The service's role or the administrators': this one may have what that one has.
    kind: str
    powers: list[str]
    member_of: list[str]


class _Relation(NamedTuple):
    name: str
    quoted: str
    kind: str
    owner: str
    is_secured: bool
    is_readable: bool
    is_invoker: bool


class _Function(NamedTuple):
    name: str
    quoted: str
    owner: str
    is_definer: bool
    settings: list[str]
    body: str | None


class _Policy(NamedTuple):
    name: str
    table: str
    quoted: str
    is_permissive: bool
    roles: list[str]
    conditions: list[str]


class _Grant(NamedTuple):
    object: str
    column: str | None
    place: str
    privilege: str
    grantee: str


class _Trigger(NamedTuple):
    name: str
    table: str
    function: str
    is_enabled: bool


async def find_offences(connection: AsyncConnection) -> dict[str, list[Offence]]:
    """What was found, by the names of the checks; each of them is there."""
    values = {"owner": OWNER_ROLE, "service": SERVICE_ROLE, "admin": ADMIN_ROLE}

    async def rows(record: type[Row], name: str) -> list[Row]:
        cursor = connection.cursor(row_factory=class_row(record))
        return await (await cursor.execute(_SQL[name], values)).fetchall()

    (server,) = await rows(_Server, "server")
    roles = await rows(_Role, "roles")
    relations = await rows(_Relation, "relations")
    functions = await rows(_Function, "functions")
    tables = [relation for relation in relations if relation.kind in ("r", "p")]
    found: dict[str, Iterable[Offence]] = {
        **_server(server),
        "powers": _powers(roles),
        "ownership": _ownership(server, tables, functions),
        "row security": _row_security(tables),
        **_policies(await rows(_Policy, "policies"), roles, tables),
        "views": _views(relations),
        "privileges": _privileges(await rows(_Grant, "grants"), roles),
        "functions": _functions(functions),
        "triggers": _triggers(await rows(_Trigger, "triggers")),
    }
    recorded: list[tuple[str, str]] | None = None
    if any(table.name == "migrations" and table.is_readable for table in tables):
        recorded = await (await connection.execute(_SQL["record"])).fetchall()
    in_order = {check: sorted(offences, key=lambda offence: offence[0]) for check, offences in found.items()}
    return in_order | {"migrations": _migrations(recorded)}


def _server(server: _Server) -> dict[str, list[Offence]]:
    fixed = next((number for number in FIXED_SERVERS if number // 10000 == server.number // 10000), MINIMUM_SERVER)
    vector = "pgvector is not enabled" if server.vector is None else f"pgvector {server.vector}"
    checks = [
        ("server", server.number >= fixed, f"Postgres {server.version}"),
        ("pgvector", server.vector is not None and not is_old_vector(server.vector), vector),
        ("encoding", server.encoding == "UTF8", server.encoding),
        ("search path", server.is_on_path, server.search_path),
        ("service role", server.session_user == server.current_user == SERVICE_ROLE, server.session_user),
        ("replication role", server.replication_role == "origin", server.replication_role),
    ]
    return {check: [] if is_sound else [(found, None)] for check, is_sound, found in checks}


def _migrations(recorded: list[tuple[str, str]] | None) -> list[Offence]:
    if recorded is None:
        return [("none has run, or their record cannot be read", None)]
    unfit, pending = differences(dict(recorded))
    return [(difference, None) for difference in (*unfit, *(f"{file.name} is not applied" for file in pending))]


def _powers(roles: list[_Role]) -> Iterator[Offence]:
    for role in roles:
        for power in role.powers:
            yield f"{role.name} is {power}", f"alter role {role.quoted} no{power}"
        if "superuser" not in role.powers:
            for group in _APART.intersection(role.member_of) - {role.kind}:
                yield f"{role.name} is a member of {group}", f"revoke {group} from {role.quoted}"


def _ownership(server: _Server, tables: list[_Relation], functions: list[_Function]) -> list[Offence]:
    owned = [("schema mnemic", server.schema_owner)] if server.schema_owner else []
    owned += [(f"table {table.quoted}", table.owner) for table in tables]
    owned += [(f"function {function.quoted}", function.owner) for function in functions]
    return [
        (f"{thing} belongs to {owner}", f"alter {thing} owner to {OWNER_ROLE}")
        for thing, owner in owned
        if owner != OWNER_ROLE
    ]


def _row_security(tables: list[_Relation]) -> list[Offence]:
    return [
        (table.name, f"alter table {table.quoted} enable row level security, force row level security")
        for table in tables
        if not table.is_secured and table.name not in ("migrations", "checkpoint_migrations")
    ]


def _policies(policies: list[_Policy], roles: list[_Role], tables: list[_Relation]) -> dict[str, set[Offence]]:
    present, made = {table.name for table in tables}, {(policy.table, policy.name) for policy in policies}
    missing = [own for own in POLICIES if own.table in present and (own.table, own.name) not in made]
    found: dict[str, set[Offence]] = {"policies": {(f"{own.name} on {own.table}", None) for own in missing}}
    found["allowlists"] = set()
    for policy, role in product(policies, roles):
        expected = _compared(policy.table, role) if _opens(policy, role) else ()
        for condition in policy.conditions:
            if lacking := {setting for setting in expected if f"mnemic.{setting}" not in condition}:
                is_own = policy.name in ("service", "administrator")
                mending = None if is_own else f"drop policy {policy.quoted}"
                check = "allowlists" if lacking == {"categories"} else "policies"
                found[check].add((f"{policy.name} on {policy.table}", mending))
    return found


def _opens(policy: _Policy, role: _Role) -> bool:
    """Whether it shows rows to this role, to everybody or to a group that the role may be in."""
    through = set(role.member_of) - (_APART - {role.kind})
    return policy.is_permissive and ("public" in policy.roles or not through.isdisjoint(policy.roles))


def _compared(table: str, role: _Role) -> set[str]:
    """The settings with which it has to compare a row; of a table that the role has no policy on, all of the others."""
    own = [policy for policy in POLICIES if policy.table == table]
    nearest = [policy for policy in own if policy.role == role.kind] or own
    return {setting for policy in nearest for setting in policy.settings} or {"agent_id"}


def _views(relations: list[_Relation]) -> Iterator[Offence]:
    for view in relations:
        if view.kind == "m":
            yield view.quoted, f"drop materialized view {view.quoted}"
        elif view.kind == "v" and not view.is_invoker:
            yield view.quoted, f"alter view {view.quoted} set (security_invoker = true)"


def _privileges(granted: list[_Grant], roles: list[_Role]) -> Iterator[Offence]:
    listed = grants()
    for grant in granted:
        holders = [r.kind for r in roles if "superuser" not in r.powers and grant.grantee in r.member_of]
        # a privilege on a table is one on each of its columns
        places = (grant.object, f"{grant.object}.{grant.column}")
        allowed = {role for role, privilege, place in listed if privilege == grant.privilege and place in places}
        if grant.grantee == "public" or any(allowed.isdisjoint((grant.grantee, holder)) for holder in holders):
            right = f"{grant.privilege} ({grant.column})" if grant.column else grant.privilege
            found = f"{right} on {grant.object} to {grant.grantee}"
            yield found, f"revoke {right} on {grant.place} from {grant.grantee}"


def _functions(functions: list[_Function]) -> Iterator[Offence]:
    expected = bodies()
    for function in functions:
        path = f"alter function {function.quoted} set search_path = mnemic, pg_temp"
        if function.is_definer and "search_path=mnemic, pg_temp" not in function.settings:
            yield f"{function.quoted} runs as its owner on another search path", path
        if function.body is not None and function.body != expected.get(function.name):
            yield f"{function.quoted} is not what the package has", None
    for name in expected.keys() - {function.name for function in functions} if functions else ():
        yield f"mnemic.{name} is missing", None


def _triggers(made: list[_Trigger]) -> Iterator[Offence]:
    found = {(trigger.name, trigger.table): trigger for trigger in made}
    for name, table, function in triggers():
        trigger = found.get((name, table))
        if trigger is None:
            yield f"{name} on {table}", None
        elif trigger.function != f"mnemic.{function}":
            yield f"{name} on {table} calls {trigger.function}", None
        elif not trigger.is_enabled:
            yield f"{name} on {table}", f"alter table mnemic.{table} enable trigger {name}"
