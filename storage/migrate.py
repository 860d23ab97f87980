"""Sets up a database: extension, roles, tables and rules. Safe to run from many processes at once."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, LiteralString

from psycopg import AsyncConnection, Error, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import (
    DeadlockDetected,
    DependentObjectsStillExist,
    DuplicateObject,
    FeatureNotSupported,
    InsufficientPrivilege,
    InternalError_,
    UndefinedFile,
    UniqueViolation,
)

from mnemic.state.errors import DatabaseSetupError
from mnemic.storage.connection import connect
from mnemic.storage.failures import typed_error
from mnemic.storage.schema import ADMIN_ROLE, OWNER_ROLE, QUEUE_SCHEMA, RULES, SERVICE_ROLE, SchemaFile, schema_files

MINIMUM_SERVER = 150000

_MINIMUM_VECTOR = (0, 8)
#: Held by the process that sets up a database.
SETUP_LOCK = 0x6D6E656D6963  # "mnemic"
_POLL_SECONDS = 0.05
_MAX_ATTEMPTS = 10
_RECORDS: LiteralString = (
    "create table if not exists migrations (name text primary key, checksum text not null,"
    " applied_at timestamptz not null default clock_timestamp());"
    f" grant usage on schema mnemic to {SERVICE_ROLE}; grant select on migrations to {SERVICE_ROLE}"
)
_RECORD: LiteralString = (
    "insert into migrations (name, checksum) values (%s, %s)"
    " on conflict (name) do update set checksum = excluded.checksum, applied_at = clock_timestamp()"
)
_VECTOR: LiteralString = (
    "select e.extversion, n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace"
    " where e.extname = 'vector'"
)


async def migrate(
    dsn: str, *, service_dsn: str | None = None, admin_dsn: str | None = None, seconds: float = 10
) -> list[str]:
    """Bring the database at `dsn` up to date and return the names of the files that were applied.

    Args:
        dsn: of a role that may create roles, the schema and (if it is missing) the extension.
        service_dsn: the service's DSN; its password is given to the role `mnemic_app` when that role is created.
        admin_dsn: the administrators' DSN; likewise for the role `mnemic_admin`.
        seconds: the longest wait for the connection.

    Raises:
        DatabaseSetupError: server or pgvector too old or missing, rights missing, a file of tables changed after it was
            applied, or the database made by another release.
        DatabaseUnavailableError: no connection, or it was lost.
        MnemicError: the database failed otherwise.
    """
    connection = await connect(dsn, "MNEMIC_MIGRATION_URL", seconds)
    try:
        async with connection:
            if (version := connection.info.server_version) < MINIMUM_SERVER:
                raise DatabaseSetupError(f"Postgres {version // 10000} is too old: Mnemic needs 15 or newer")
            vector_schema = await _prepare(connection, {SERVICE_ROLE: service_dsn, ADMIN_ROLE: admin_dsn})
            return await _apply_pending(connection, vector_schema)
    except InsufficientPrivilege as error:
        raise DatabaseSetupError(
            f"the role of MNEMIC_MIGRATION_URL may not set up the database: {error.diag.message_primary}"
        ) from error
    except DependentObjectsStillExist as error:
        raise DatabaseSetupError(
            "something of yours depends on a function of Mnemic's, which has to be made anew: drop it, run "
            f"`mnemic db migrate`, and make it again: {error.diag.message_detail}"
        ) from error
    except Error as error:
        raise typed_error(error) from None


async def _prepare(connection: AsyncConnection, dsns: Mapping[str, str | None]) -> str:
    """Ensure extension, roles and schema; return the extension's schema.

    Roles belong to the whole server, so the set-up of another database may change the same row of a catalog at the same
    moment. Postgres then gives up one of the two, and that one begins again.
    """
    attempts = 0
    while True:
        try:
            async with _alone(connection):
                vector_schema = await _ensure_extension(connection)
                await _ensure_roles(connection, dsns)
                await _ensure_schema(connection, vector_schema)
                return vector_schema
        except (DeadlockDetected, InternalError_, UniqueViolation):
            attempts += 1
            if attempts == _MAX_ATTEMPTS:
                raise
        await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def _alone(connection: AsyncConnection) -> AsyncIterator[None]:
    """Open a transaction that excludes other migrations; a pooler would pass a session's lock to another client."""
    # polled: a waiter on a blocking lock deadlocks with another library's CREATE INDEX CONCURRENTLY
    while True:
        async with connection.transaction():
            if await _value(connection, "select pg_try_advisory_xact_lock(%s)", SETUP_LOCK):
                yield
                return
        await asyncio.sleep(_POLL_SECONDS)


async def _ensure_extension(connection: AsyncConnection) -> str:
    """Return the schema of pgvector, and create the extension if it is missing."""
    try:
        await connection.execute("create extension if not exists vector")
    except (FeatureNotSupported, UndefinedFile) as error:
        raise DatabaseSetupError(
            "pgvector is missing on this server: its administrator installs the package (for instance "
            "postgresql-17-pgvector), then a superuser runs `create extension vector` in this database"
        ) from error
    except InsufficientPrivilege as error:
        raise DatabaseSetupError(
            "pgvector is not enabled here: a superuser must run `create extension vector` in this database"
        ) from error
    ((installed, schema),) = await (await connection.execute(_VECTOR)).fetchall()
    if is_old_vector(installed):
        raise DatabaseSetupError(
            f"pgvector {installed} is too old: install 0.8 or newer, "
            "then a superuser runs `alter extension vector update`"
        )
    return str(schema)


async def _ensure_roles(connection: AsyncConnection, dsns: Mapping[str, str | None]) -> None:
    for role, login in ((OWNER_ROLE, False), (SERVICE_ROLE, True), (ADMIN_ROLE, True)):
        if await _value(connection, "select 1 from pg_roles where rolname = %s", role):
            continue
        rights: sql.Composable = sql.SQL("login" if login else "nologin")
        password = str(conninfo_to_dict(dsns.get(role) or "").get("password") or "")
        if password:
            rights = sql.SQL("login password {}").format(sql.Literal(password))
        with suppress(DuplicateObject, UniqueViolation):  # roles are the server's: another database is being set up too
            async with connection.transaction():
                await connection.execute(sql.SQL("create role {} {}").format(sql.Identifier(role), rights))
    # from Postgres 16 on, the creator of a role is its member without the right to act as it
    acting = "set" if connection.info.server_version >= 160000 else "member"
    if not await _value(connection, "select pg_has_role(%s, %s)", OWNER_ROLE, acting):
        await connection.execute(sql.SQL("grant {} to current_user").format(sql.Identifier(OWNER_ROLE)))


async def _ensure_schema(connection: AsyncConnection, vector_schema: str) -> None:
    for schema in ("mnemic", QUEUE_SCHEMA):
        await connection.execute(f"create schema if not exists {schema} authorization {OWNER_ROLE}")
    database = str(await _value(connection, "select current_database()"))  # a pooler may know it by another name
    for role in (SERVICE_ROLE, ADMIN_ROLE):
        await connection.execute(
            sql.SQL("alter role {} in database {} set search_path = mnemic, {}, {}").format(
                *map(sql.Identifier, (role, database, vector_schema, QUEUE_SCHEMA))
            )
        )


async def _apply_pending(connection: AsyncConnection, vector_schema: str) -> list[str]:
    ran: list[str] = []
    while True:
        # rules lock every table against a running service; the loser of a deadlock begins again
        with suppress(DeadlockDetected):
            async with _alone(connection):
                await connection.execute(f"set local role {OWNER_ROLE}")
                await connection.execute(
                    sql.SQL("set local search_path = mnemic, {}").format(sql.Identifier(vector_schema))
                )
                await connection.execute(_RECORDS)
                record = await connection.execute("select name, checksum from migrations")
                applied: dict[str, str] = dict(await record.fetchall())
                unfit, pending = differences(applied)
                if unfit:
                    raise DatabaseSetupError(
                        f"{unfit[0]}: use the release of mnemic that made this database, or a newer release"
                    )
                if not pending:
                    return ran
                file = pending[0]
                await connection.execute(file.text.encode())
                await connection.execute(_RECORD, (file.name, file.checksum))
            ran.append(file.name)


def is_old_vector(release: str) -> bool:
    """Return whether this release of pgvector is older than the minimum."""
    return tuple(map(int, re.findall(r"\d+", release)[:2])) < _MINIMUM_VECTOR


def differences(applied: Mapping[str, str]) -> tuple[list[str], list[SchemaFile]]:
    """Compare the record of a database, checksums by names, with the files of this package.

    Returns:
        Problems that cannot be repaired here, since tables were changed or another release made them; and the files
        that are still to be applied.
    """
    pending: list[SchemaFile] = []
    changed: list[str] = []
    unknown = dict.fromkeys(applied)
    for file in schema_files():
        unknown.pop(file.name, None)
        if applied.get(file.name) == file.checksum:
            continue
        if file.name in applied and file.name != RULES:
            changed.append(f"{file.name} was changed after it was applied")
        else:
            pending.append(file)
    unfit = [f"{name} is unknown to this release" for name in unknown]
    return unfit + changed, pending


async def _value(connection: AsyncConnection, statement: LiteralString, *values: object) -> Any:
    row = await (await connection.execute(statement, values)).fetchone()
    return row[0] if row else None
