"""Checks the set-up that isolation, protection and audit rest on, as the service's own role; run at every start."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from psycopg import AsyncConnection

from mnemic.state.errors import DatabaseSetupError
from mnemic.storage.database import Database
from mnemic.storage.migrate import MINIMUM_SERVER, MINIMUM_VECTOR, SERVICE_ROLE, migrations
from mnemic.storage.statements import load_statements

_SQL = load_statements("doctor")
#: Every check and what to do when it fails.
_REMEDIES: Final = {
    "server": "move to Postgres 15 or newer",
    "pgvector": "install pgvector 0.8 or newer on the server, then a superuser runs `create extension vector` or "
    "`alter extension vector update` in this database",
    "encoding": "create the database with `encoding 'UTF8'` and restore it there",
    "migrations": "run `mnemic db migrate` with the released package",
    "search path": "run `mnemic db migrate`, which sets it for the roles; a dump leaves it out",
    "service role": f"let MNEMIC_DATABASE_URL log in as {SERVICE_ROLE}",
    "powers": "row-level security does not bind this role: a superuser runs `alter role ... nosuperuser nobypassrls` "
    "and `revoke mnemic_owner from ...`",
    "ownership": "a superuser runs `alter table` or `alter function mnemic.... owner to mnemic_owner`",
    "row security": "a superuser runs `alter table mnemic.... enable row level security` and "
    "`... force row level security`",
    "policies": "these show rows beyond a transaction's scope: a superuser drops them",
    "allowlists": "these show rows of every category to every role: a superuser drops them; a table's own, `service`, "
    "comes back only from a dump of a sound database",
    "privileges": "a superuser runs `revoke ... from` this role (and from public)",
    "triggers": "a superuser runs `alter table mnemic.... enable trigger ...`, and `alter role ... reset "
    "session_replication_role`; a missing one comes back only from a dump of a sound database",
}


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    ok: bool
    #: What was found and what to do; empty when the check passed.
    remedy: str = ""


async def check(database: Database) -> list[Finding]:
    """All checks of the database's set-up, passed or not.

    Raises:
        DatabaseUnavailableError: the database cannot be reached.
    """
    found: dict[str, list[str]] = defaultdict(list)
    values = {"server": MINIMUM_SERVER, "vector": list(MINIMUM_VECTOR), "role": SERVICE_ROLE}
    async with database.catalog() as connection:
        for name, offence in await (await connection.execute(_SQL["offences"], values)).fetchall():
            found[name].append(offence)
        found["migrations"] += await _unapplied(connection)
    return [
        Finding(name, not found[name], f"{', '.join(found[name])}: {remedy}" if found[name] else "")
        for name, remedy in _REMEDIES.items()
    ]


async def require_sound(database: Database) -> None:
    """Refuses a database whose set-up would not keep what Mnemic promises.

    Raises:
        DatabaseSetupError: with everything that has to be mended.
        DatabaseUnavailableError: the database cannot be reached.
    """
    broken = [finding for finding in await check(database) if not finding.ok]
    if broken:
        lines = "".join(f"\n- {finding.name}: {finding.remedy}" for finding in broken)
        raise DatabaseSetupError(f"the database is not set up safely:{lines}")


async def _unapplied(connection: AsyncConnection) -> list[str]:
    (readable,) = await (await connection.execute(_SQL["has_record"])).fetchone() or (False,)
    if not readable:
        return ["none has run, or their record cannot be read"]
    recorded: dict[int, str] = dict(await (await connection.execute(_SQL["record"])).fetchall())
    return list(_differences(recorded))


def _differences(recorded: dict[int, str]) -> Iterator[str]:
    for migration in migrations():
        if migration.number not in recorded:
            yield f"{migration.name} has not run"
        elif recorded[migration.number] != migration.checksum:
            yield f"{migration.name} was changed after it ran"
