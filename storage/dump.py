"""Dumps the whole database into one file, with the programs that Postgres itself brings for it."""

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mnemic.state.errors import ConfigurationError, DatabaseUnavailableError, InvalidInputError
from mnemic.state.settings import Settings
from mnemic.storage.connection import pooler_mode
from mnemic.storage.opening import SETUP, find_server


async def dump_database(settings: Settings, target: Path) -> int:
    """Writes a dump in Postgres' custom format, readable by its owner alone; `pg_restore` reads it.

    The file appears when it is complete: a dump that fails leaves an older file of that name as it was.

    Returns:
        The bytes of the file.

    Raises:
        ConfigurationError: no `pg_dump` is installed, or MNEMIC_MIGRATION_URL is missing or a pooler's.
        InvalidInputError: the file cannot be written.
        DatabaseUnavailableError: no connection, or `pg_dump` failed; the message is its own then.
        EmbeddedPostgresError: the embedded server cannot be started.
    """
    program = _find_pg_dump(settings)
    async with find_server(settings, SETUP) as (dsn, _):
        if await pooler_mode(dsn) == "transaction":
            raise ConfigurationError(
                "MNEMIC_MIGRATION_URL leads through a pooler whose clients share server connections, and pg_dump would "
                "change them for the others: name the server itself, or a port with session pooling"
            )
        return await asyncio.to_thread(_dump, program, dsn, target)


def _find_pg_dump(settings: Settings) -> str:
    """The embedded server's own program; for a server of one's own that on PATH, whose version its owner chooses."""
    bundled = None
    if settings.migration_url is None and settings.database_url is None:
        from mnemic.storage.embedded.binaries import find_binaries

        bundled = shutil.which("pg_dump", path=find_binaries())
    if program := bundled or shutil.which("pg_dump"):
        return program
    raise ConfigurationError("pg_dump is not on PATH: install Postgres' client programs of the server's version")


def _dump(program: str, dsn: str, target: Path) -> int:
    part = target.with_name(f"{target.name}.part")
    try:
        # 0600: the file holds everybody's memories
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            _run(program, dsn, file.fileno())
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        raise InvalidInputError(f"the dump cannot be written to {target}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # a name that no file can have
            part.unlink(missing_ok=True)
    return target.stat().st_size


def _run(program: str, dsn: str, output: int) -> None:
    parts = conninfo_to_dict(dsn)
    password = parts.pop("password", None)  # not among the arguments, which every account of the machine can list
    environment = {**os.environ, "LC_ALL": "C"} | ({"PGPASSWORD": str(password)} if password else {})
    done = subprocess.run(  # noqa: S603  # our own argument list, no shell
        [program, "--format=custom", "--no-password", f"--dbname={make_conninfo('', **parts)}"],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        reason = " ".join(done.stderr.split())[-500:]
        raise DatabaseUnavailableError(f"{program} ended with exit code {done.returncode}: {reason}")
