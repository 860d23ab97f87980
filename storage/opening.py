"""Opens the database the settings name: a server by its DSN, or the embedded one, set up on the way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from psycopg import AsyncConnection, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DuplicateDatabase
from pydantic import SecretStr

from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.doctor import require_sound
from mnemic.storage.isolation import ADMIN_ROLE, SERVICE_ROLE
from mnemic.storage.migrate import migrate

if TYPE_CHECKING:  # who brings a server of their own needs none of it; a test holds it
    from mnemic.storage.embedded import EmbeddedPostgres

_DATABASE = "mnemic"


@asynccontextmanager
async def open_database(settings: Settings, *, sound: bool = True) -> AsyncIterator[Database]:
    """The service's database, checked.

    A server of one's own is never changed here: `mnemic db migrate` sets it up.

    Args:
        sound: False opens a broken set-up too, for the doctor to look at.

    Raises:
        DatabaseUnavailableError: no connection.
        DatabaseSetupError: the set-up is broken; the message says what to do.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    if settings.database_url is not None:
        async with _pool(_read_dsn(settings.database_url, "MNEMIC_DATABASE_URL"), settings, sound) as database:
            yield database
        return
    async with _embedded(settings) as server:
        await migrate(server.dsn(dbname=_DATABASE))
        dsn = server.dsn(user=SERVICE_ROLE, dbname=_DATABASE)
        async with _pool(dsn, settings, sound, revive=server.revive) as database:
            yield database


@asynccontextmanager
async def open_administration(settings: Settings) -> AsyncIterator[Database]:
    """The database as the administrators' role, which sees what happened and no contents.

    Raises:
        ConfigurationError: MNEMIC_ADMIN_URL is missing or no DSN.
        DatabaseUnavailableError: no connection.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    if settings.admin_url is not None:
        async with _pool(_read_dsn(settings.admin_url, "MNEMIC_ADMIN_URL"), settings, sound=False) as database:
            yield database
        return
    if settings.database_url is not None:
        raise ConfigurationError(
            "MNEMIC_DATABASE_URL names a server of your own: set MNEMIC_ADMIN_URL too, the DSN of its role mnemic_admin"
        )
    async with _embedded(settings) as server:
        await migrate(server.dsn(dbname=_DATABASE))
        dsn = server.dsn(user=ADMIN_ROLE, dbname=_DATABASE)
        async with _pool(dsn, settings, sound=False, revive=server.revive) as database:
            yield database


async def set_up_database(settings: Settings) -> list[str]:
    """Runs the pending migrations on a server of one's own or the embedded one; the names of those that ran.

    Raises:
        ConfigurationError: MNEMIC_MIGRATION_URL is missing or no DSN.
        DatabaseSetupError: the server does not allow it; the message says what to do.
        DatabaseUnavailableError: no connection.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    service, admin = settings.database_url, settings.admin_url
    async with setup_dsn(settings) as dsn:
        return await migrate(
            dsn,
            service_dsn=_read_dsn(service, "MNEMIC_DATABASE_URL") if service else None,
            admin_dsn=_read_dsn(admin, "MNEMIC_ADMIN_URL") if admin else None,
        )


@asynccontextmanager
async def setup_dsn(settings: Settings) -> AsyncIterator[str]:
    """The DSN that may change and dump everything; it holds until the block ends.

    Raises:
        ConfigurationError: MNEMIC_MIGRATION_URL is missing or no DSN.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    if settings.migration_url is not None:
        yield _read_dsn(settings.migration_url, "MNEMIC_MIGRATION_URL")
        return
    if settings.database_url is not None:
        raise ConfigurationError(
            "MNEMIC_DATABASE_URL names a server of your own: set MNEMIC_MIGRATION_URL too, the DSN of a role that may "
            "set up this database"
        )
    async with _embedded(settings) as server:
        yield server.dsn(dbname=_DATABASE)


def describe_database(settings: Settings) -> str:
    """Where the memories are, in a few words and without a password."""
    if settings.database_url is None:
        from mnemic.storage.embedded import default_data_dir

        return f"embedded Postgres in {settings.data_dir or default_data_dir()}"
    parts = conninfo_to_dict(_read_dsn(settings.database_url, "MNEMIC_DATABASE_URL"))
    return f"Postgres at {parts.get('host', 'localhost')}, database {parts.get('dbname') or parts.get('user', '')}"


def _read_dsn(secret: SecretStr, variable: str) -> str:
    dsn = secret.get_secret_value()
    try:
        conninfo_to_dict(dsn)
    except ProgrammingError:
        # from None: the driver's message quotes the DSN, which may hold a password
        raise ConfigurationError(f"{variable} is no DSN; write postgresql://role:password@host:5432/database") from None
    return dsn


@asynccontextmanager
async def _pool(
    dsn: str, settings: Settings, sound: bool, *, revive: Callable[[], None] | None = None
) -> AsyncIterator[Database]:
    database = Database(dsn, settings, revive=revive)
    await database.open()
    try:
        if sound:
            await require_sound(database)
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def _embedded(settings: Settings) -> AsyncIterator["EmbeddedPostgres"]:
    server = await asyncio.to_thread(_start, settings)
    try:
        await _create_database(server)
        yield server
    finally:
        await asyncio.to_thread(server.stop)


def _start(settings: Settings) -> "EmbeddedPostgres":
    # Here and not above: a server of one's own needs neither the package nor POSIX locks.
    from mnemic.storage.embedded import EmbeddedPostgres, default_data_dir

    server = EmbeddedPostgres(settings.data_dir or default_data_dir())
    server.start()
    return server


async def _create_database(server: "EmbeddedPostgres") -> None:
    async with await AsyncConnection.connect(server.dsn(), autocommit=True) as connection:
        cursor = await connection.execute("select 1 from pg_database where datname = %s", (_DATABASE,))
        if await cursor.fetchone():
            return
        try:
            await connection.execute(f"create database {_DATABASE}")
        except DuplicateDatabase:
            return  # another process was faster
