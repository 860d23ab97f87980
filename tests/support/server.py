"""One throw-away Postgres server for a whole test run, a template made by the project's own migrations, and its clones.

All xdist workers share the server: it lies in a directory named after the run, on the memory disk where that has room.
"""

import asyncio
import hashlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mnemic.state.settings import Settings
from mnemic.storage import migrate as migrate_module
from mnemic.storage.database import Database
from mnemic.storage.embedded.server import EmbeddedPostgres
from mnemic.storage.schema import ADMIN_ROLE, SERVICE_ROLE, schema_files

#: Set by the process that starts the run; its workers inherit it.
RUN_VARIABLE = "PYTEST_MNEMIC_RUN"

_ROOM_BYTES = 2 << 30
#: No limit of connections or background work that a test would notice; the log names database and role of each line.
_SERVER_SETTINGS = {
    "max_connections": "200",
    **dict.fromkeys(("autovacuum", "jit", "fsync", "full_page_writes"), "off"),
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # without fsync as quick as off, and a vacuum takes rows for visible to all only once their commit is written out
    "synchronous_commit": "on",
    "log_line_prefix": "@%d %u@ ",
    "log_parameter_max_length": "0",
}


def fast_directory() -> Path:
    """The memory disk where it has room (64 MB in a default container), else the temporary directory."""
    shared = Path("/dev/shm")
    has_room = shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > _ROOM_BYTES
    return shared if has_room else Path(tempfile.gettempdir())


def run_directory() -> Path:
    """Where this run's server lives."""
    return fast_directory() / f"mnemic-test-{os.getuid()}-{os.environ[RUN_VARIABLE]}"


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server, reached as superuser."""

    admin_dsn: str
    log: Path

    def dsn(self, dbname: str) -> str:
        return make_conninfo(self.admin_dsn, dbname=dbname)


@dataclass(frozen=True, kw_only=True)
class Clone:
    """One database, a copy of the template or an empty one."""

    server: Server
    name: str

    @property
    def superuser_dsn(self) -> str:
        return self.server.dsn(self.name)

    @property
    def service_dsn(self) -> str:
        return self.dsn_of(SERVICE_ROLE)

    @property
    def administrator_dsn(self) -> str:
        """That of administrators, who see no contents."""
        return self.dsn_of(ADMIN_ROLE)

    def dsn_of(self, role: str) -> str:
        return make_conninfo(self.superuser_dsn, user=role)

    @contextmanager
    def as_superuser(self) -> Iterator[psycopg.Connection]:
        """For set-up and for looking behind the policies, never for the act that is tested."""
        with psycopg.connect(self.superuser_dsn, autocommit=True) as connection:
            yield connection

    @contextmanager
    def as_role(self, role: str) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.dsn_of(role), autocommit=True) as connection:
            yield connection

    @asynccontextmanager
    async def database(self, settings: Settings | None = None, *, dsn: str | None = None) -> AsyncIterator[Database]:
        """The service's own pool on this database, or that of another role."""
        database = Database(dsn or self.service_dsn, settings or _pool_settings())
        await database.open()
        try:
            yield database
        finally:
            await database.close()


@cache  # reading settings takes a third of the time of opening a pool
def _pool_settings() -> Settings:
    return Settings(pool_size=4)


@contextmanager
def running_server() -> Iterator[Server]:
    """The run's server; stopped by the last process that leaves it."""
    with EmbeddedPostgres(run_directory(), settings=_SERVER_SETTINGS) as embedded:
        yield Server(admin_dsn=embedded.dsn(), log=run_directory() / "server.log")


def ensure_template(server: Server) -> str:
    """Name of a database made by `migrate()`; made once per server and state of the migrations."""
    name = f"mnemic_template_{_fingerprint()}"
    with psycopg.connect(server.admin_dsn, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtext(%s))", (name,))  # released with the connection
        if connection.execute("select 1 from pg_database where datname = %s and datistemplate", (name,)).fetchone():
            return name
        _drop(connection, name)
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        asyncio.run(migrate_module.migrate(server.dsn(name)))
        for statement in (
            sql.SQL("alter role mnemic_app set log_statement = 'all'"),
            sql.SQL("alter database {} is_template true allow_connections false").format(sql.Identifier(name)),
        ):
            connection.execute(statement)
    return name


def _fingerprint() -> str:
    code = Path(migrate_module.__file__).read_text(encoding="utf-8")
    parts = [code, *(file.checksum for file in schema_files())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@contextmanager
def cloned(server: Server, template: str | None, options: LiteralString = "") -> Iterator[Clone]:
    """A copy of the template, or an empty database, made with further options; dropped at the end."""
    name = f"mnemic_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.admin_dsn, autocommit=True) as connection:
        # a copy of files makes a checkpoint, which is cheap only without fsync (20 against 45 ms)
        origin = sql.SQL("template {} strategy file_copy").format(sql.Identifier(template or "template0"))
        connection.execute(sql.SQL("create database {} {} {}").format(sql.Identifier(name), origin, sql.SQL(options)))
        # "create database" leaves out what roles have set in the original: the search path
        connection.execute(
            "insert into pg_db_role_setting select c.oid, s.setrole, s.setconfig from pg_db_role_setting s"
            " join pg_database t on t.oid = s.setdatabase, pg_database c where t.datname = %s and c.datname = %s",
            (template, name),
        )
        try:
            yield Clone(server=server, name=name)
        finally:
            _drop(connection, name)


def _drop(connection: psycopg.Connection, name: str) -> None:
    connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def wipe(connection: psycopg.Connection) -> None:
    """Delete every row but the records of migrations, triggers and foreign keys switched off: below 1 ms.

    The statement of a process that was killed just now may still run and hold rows in another order. Then Postgres ends
    one of the two as a deadlock, and the rows are deleted again, without the other.
    """
    try:
        _delete_all(connection)
    except psycopg.errors.DeadlockDetected:
        _delete_all(connection)


def _delete_all(connection: psycopg.Connection) -> None:
    tables = connection.execute(
        "select schemaname, tablename from pg_tables"
        " where schemaname not in ('pg_catalog', 'information_schema') and tablename not like '%migrations'"
    ).fetchall()
    deletions = [sql.SQL("delete from {}").format(sql.Identifier(schema, table)) for schema, table in tables]
    # one message is one transaction; a message for each table takes ten times as long
    connection.execute(sql.SQL("; ").join([sql.SQL("set local session_replication_role = replica"), *deletions]))


#: Waits for a row for so long that Postgres looks for a deadlock first.
PATIENT = Settings(pool_size=8, lock_timeout_seconds=20)


def see_deadlocks_quickly(clone: Clone) -> None:
    """After 20 ms instead of a second, on connections made from now on."""
    with clone.as_superuser() as connection:
        connection.execute(f'alter role mnemic_app in database "{clone.name}" set deadlock_timeout = 20')


_STATEMENT = re.compile(r"^@(\S*) (\S*)@ LOG:  (?:statement|execute [^:]+): (.*?)(?=^@|\Z)", re.MULTILINE | re.DOTALL)


@contextmanager
def recorded_statements(clone: Clone) -> Iterator[list[str]]:
    """Fills its list, at the end of the block, with every statement of the service's role, BEGIN and COMMIT included.

    A backend writes the line before it runs the statement, so nothing that has answered is missing.
    """
    log = clone.server.log
    start = log.stat().st_size
    sent: list[str] = []
    yield sent
    with log.open("rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    sent += [
        statement.replace("\n\t", "\n").strip()  # the log indents a statement's further lines
        for database, role, statement in _STATEMENT.findall(text)
        if (database, role) == (clone.name, SERVICE_ROLE)
    ]
