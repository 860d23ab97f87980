"""Opens the database the settings name: a server by its DSN, or the embedded one, set up on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from psycopg import AsyncConnection
from psycopg.errors import DuplicateDatabase

from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.doctor import require_sound
from mnemic.storage.migrate import SERVICE_ROLE, migrate

if TYPE_CHECKING:
    from mnemic.storage.embedded import EmbeddedPostgres

_DATABASE = "mnemic"


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """The service's database, checked.

    A server of one's own is never changed here: `mnemic db migrate` sets it up.

    Raises:
        DatabaseUnavailableError: no connection.
        DatabaseSetupError: the set-up is broken; the message says what to do.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    if settings.database_url is not None:
        async with _pool(settings.database_url.get_secret_value(), settings) as database:
            yield database
        return
    server = await asyncio.to_thread(_start, settings)
    try:
        await _create_database(server)
        await migrate(server.dsn(dbname=_DATABASE))
        async with _pool(server.dsn(user=SERVICE_ROLE, dbname=_DATABASE), settings) as database:
            yield database
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def _pool(dsn: str, settings: Settings) -> AsyncIterator[Database]:
    database = Database(dsn, settings)
    await database.open()
    try:
        await require_sound(database)
        yield database
    finally:
        await database.close()


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
