"""The database that the settings name, a server by its DSN or the embedded one: opened, set up, dumped, described."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from psycopg import Error, ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from mnemic.state.errors import ConfigurationError, DatabaseUnavailableError, InvalidInputError
from mnemic.state.files import create_private
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread
from mnemic.storage.connection import connect, pooler_mode
from mnemic.storage.database import Database
from mnemic.storage.doctor import require_sound
from mnemic.storage.failures import typed_error
from mnemic.storage.migrate import SETUP_LOCK, migrate
from mnemic.storage.schema import ADMIN_ROLE, SERVICE_ROLE

_DATABASE = "mnemic"


class Login(NamedTuple):
    """One way into the database."""

    #: The setting with the DSN of a server of one's own, and its name in the environment.
    setting: str
    variable: str
    #: The embedded server's role.
    role: str
    #: Whose DSN it has to be, where MNEMIC_DATABASE_URL alone is set.
    whose: str = ""


SERVICE: Final = Login("database_url", "MNEMIC_DATABASE_URL", SERVICE_ROLE)
ADMINISTRATION: Final = Login("admin_url", "MNEMIC_ADMIN_URL", ADMIN_ROLE, "its role mnemic_admin")
SETUP: Final = Login("migration_url", "MNEMIC_MIGRATION_URL", "postgres", "a role that may set up this database")


@asynccontextmanager
async def open_database(settings: Settings, *, login: Login = SERVICE, sound: bool = True) -> AsyncIterator[Database]:
    """Open the service's database, checked, or the administrators', with a role that sees no contents.

    Your own server is never changed here: `mnemic db migrate` sets it up.

    Args:
        settings: the settings of the process.
        login: the role that connects.
        sound: False opens a broken set-up too, for the doctor.

    Raises:
        ConfigurationError: the login's setting is missing or no DSN.
        DatabaseUnavailableError: no connection.
        DatabaseSetupError: the set-up is broken; the message says what to do.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    async with _find_server(settings, login) as (dsn, revive):
        if revive is None:  # the pool would name no cause, and log each attempt
            await (await connect(dsn, login.variable, settings.pool_timeout_seconds)).close()
        database = Database(dsn, settings, revive=revive)
        await database.open()
        try:
            if sound and login is SERVICE:
                await require_sound(database)
            yield database
        finally:
            await database.close()


async def set_up_database(settings: Settings) -> list[str]:
    """Run the pending migrations on your own server or the embedded one; return their names.

    Raises:
        ConfigurationError: MNEMIC_MIGRATION_URL is missing or no DSN.
        DatabaseSetupError: the server does not allow it; the message says what to do.
        DatabaseUnavailableError: no connection.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    passwords = {"service_dsn": _own_dsn(settings, SERVICE), "admin_dsn": _own_dsn(settings, ADMINISTRATION)}
    async with _find_server(settings, SETUP) as (dsn, _):
        return await migrate(dsn, seconds=settings.pool_timeout_seconds, **passwords)


async def dump_database(settings: Settings, target: Path) -> int:
    """Write a dump in Postgres' custom format, readable by its owner alone; `pg_restore` reads it.

    The file appears when it is complete: a dump that fails leaves an older file of that name as it was.

    Returns:
        The bytes of the file.

    Raises:
        ConfigurationError: no `pg_dump` is installed, or MNEMIC_MIGRATION_URL is missing or a pooler's.
        InvalidInputError: the file cannot be written.
        DatabaseUnavailableError: no connection, or `pg_dump` failed; the message is its own then.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    bundled = None
    if settings.migration_url is None and settings.database_url is None:
        from mnemic.storage.embedded.binaries import find_binaries

        bundled = shutil.which("pg_dump", path=find_binaries())
    program = bundled or shutil.which("pg_dump")  # for a server of one's own, whose version its owner chooses
    if program is None:
        raise ConfigurationError("pg_dump is not on PATH: install Postgres' client programs of the server's version")
    async with _find_server(settings, SETUP) as (dsn, _):
        if await pooler_mode(dsn) == "transaction":
            raise ConfigurationError(
                "MNEMIC_MIGRATION_URL leads through a pooler whose clients share server connections, and pg_dump would "
                "change them for the others: name the server itself, or a port with session pooling"
            )
        return await in_thread(_dump, program, dsn, target)


def describe_database(settings: Settings) -> str:
    """Where the memories are, in a few words and without a password."""
    dsn = _own_dsn(settings, SERVICE)
    if dsn is None:
        from mnemic.storage.embedded.server import default_data_dir

        return f"embedded Postgres in {settings.data_dir or default_data_dir()}"
    parts = conninfo_to_dict(dsn)
    return f"Postgres at {parts.get('host', 'localhost')}, database {parts.get('dbname') or parts.get('user', '')}"


def _own_dsn(settings: Settings, login: Login) -> str | None:
    secret: SecretStr | None = getattr(settings, login.setting)
    if secret is None:
        return None
    dsn = secret.get_secret_value()
    try:
        conninfo_to_dict(dsn)
    except ProgrammingError:
        # from None: the driver's message quotes the DSN, which may hold a password
        raise ConfigurationError(
            f"{login.variable} is no DSN; write postgresql://role:password@host:5432/database"
        ) from None
    return dsn


@asynccontextmanager
async def _find_server(settings: Settings, login: Login) -> AsyncIterator[tuple[str, Callable[[], None] | None]]:
    """Return the DSN of a login until the block ends, and the function that restarts the embedded server.

    Raises:
        ConfigurationError: the login's setting is missing or no DSN.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    dsn = _own_dsn(settings, login)
    if dsn is not None:
        yield dsn, None
        return
    if settings.database_url is not None:
        raise ConfigurationError(
            f"MNEMIC_DATABASE_URL names a server of your own: set {login.variable} too, the DSN of {login.whose}"
        )
    # Here and not above: a server of one's own needs neither the package nor POSIX locks.
    from mnemic.storage.embedded.server import EmbeddedPostgres, default_data_dir

    server = EmbeddedPostgres(settings.data_dir or default_data_dir())
    await in_thread(server.start)
    try:
        await _ensure_database(server.dsn(), settings)
        if login is not SETUP:
            await migrate(server.dsn(dbname=_DATABASE), seconds=settings.pool_timeout_seconds)
        yield server.dsn(login.role, _DATABASE), server.revive
    finally:
        await in_thread(server.stop)


async def _ensure_database(dsn: str, settings: Settings) -> None:
    """Create the embedded server's database if it is missing; of several processes, one creates it."""
    try:
        async with await connect(dsn, "the embedded server", settings.pool_timeout_seconds) as connection:
            await connection.execute("select pg_advisory_lock(%s)", (SETUP_LOCK,))  # it ends with the connection
            found = await connection.execute("select from pg_database where datname = %s", (_DATABASE,))
            if not found.rowcount:
                await connection.execute(f"create database {_DATABASE}")
    except Error as error:
        raise typed_error(error) from None


def _dump(program: str, dsn: str, target: Path) -> int:
    parts = conninfo_to_dict(dsn)
    password = parts.pop("password", None)  # not among the arguments, which every account of the machine can list
    environment = {**os.environ, "LC_ALL": "C"} | ({"PGPASSWORD": str(password)} if password else {})
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(create_private(part))  # pg_dump writes into it
        done = subprocess.run(  # noqa: S603  # our own argument list, no shell
            [program, "--format=custom", "--no-password", f"--dbname={make_conninfo('', **parts)}", f"--file={part}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            reason = " ".join(done.stderr.split())[-500:]
            raise DatabaseUnavailableError(f"{program} ended with exit code {done.returncode}: {reason}")
        part.replace(target)
    except OSError as error:
        raise InvalidInputError(f"the dump cannot be written to {target}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # a name that no file can have
            part.unlink(missing_ok=True)
    return target.stat().st_size
