"""Setting up a database on servers as administrators run them: passwords, missing rights, missing extension, crowds."""

import asyncio
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mnemic.state.errors import DatabaseSetupError, DatabaseUnavailableError
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.embedded.binaries import find_binaries, reachable_binaries, server_account
from mnemic.storage.migrate import migrate
from mnemic.storage.schema import schema_files
from tests.support.server import Clone, fast_directory
from tests.support.worlds import identity, memory, remember

PASSWORD = "of-the-superuser"


@contextmanager
def tcp_server() -> Iterator[str]:
    """DSN of its superuser."""
    with tempfile.TemporaryDirectory(dir=fast_directory(), prefix="mnemic-tcp-") as directory:
        base = Path(directory)
        account = server_account(base / "data")
        account.give(base)
        programs = reachable_binaries(find_binaries(), base, account)
        password_file = base / "password"
        password_file.write_text(PASSWORD)
        account.give(password_file)
        data = str(base / "data")
        options = ["-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-A", "scram-sha-256"]
        account.run([programs / "initdb", "-D", data, *options, f"--pwfile={password_file}"])
        port = _free_port()
        settings = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off"
        control = [str(programs / "pg_ctl"), "-D", data]
        account.run([*control, "-l", str(base / "log"), "-w", "-o", settings, "start"])
        try:
            yield make_conninfo(
                host="127.0.0.1", port=port, user="postgres", password=PASSWORD, dbname="postgres", connect_timeout=10
            )
        finally:
            account.run([*control, "-m", "immediate", "stop"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def forget_roles(dsn: str) -> None:
    """Drops every database and role that a test made, so that the next one meets an untouched server."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        databases = connection.execute(
            "select datname from pg_database where datname not in ('postgres', 'template0', 'template1')"
        ).fetchall()
        for (database,) in databases:
            connection.execute(
                psycopg.sql.SQL("drop database {} with (force)").format(psycopg.sql.Identifier(database))
            )
        roles = connection.execute(
            "select rolname from pg_roles where rolname <> 'postgres' and rolname not like 'pg\\_%'"
        ).fetchall()
        for (role,) in roles:
            connection.execute(psycopg.sql.SQL("drop role {}").format(psycopg.sql.Identifier(role)))


FILES = [file.name for file in schema_files()]
MIGRATE = """
import asyncio, sys
from mnemic.storage.migrate import migrate
print(len(asyncio.run(migrate(sys.argv[1]))))
"""


@pytest.fixture(scope="module")
def private_server() -> Iterator[str]:
    with tcp_server() as dsn:
        yield dsn


@pytest.fixture
def admin_dsn(private_server: str) -> Iterator[str]:
    """The superuser of a server that has never heard of Mnemic."""
    yield private_server
    forget_roles(private_server)


def database(admin_dsn: str, *, owner: str = "postgres", vector: bool = False) -> str:
    """DSN of the superuser on a new database."""
    name = f"shop_{uuid.uuid4().hex[:8]}"
    dsn = make_conninfo(admin_dsn, dbname=name)
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} owner {}").format(sql.Identifier(name), sql.Identifier(owner)))
    if vector:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("create extension vector")
    return dsn


def role(admin_dsn: str, name: str, rights: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(f"create role {name} login password 'secret' {rights}")


def run_at_once(dsns: list[str]) -> list[int]:
    """Migrates each DSN in a process of its own; how many files each of them applied."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, dsn], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for dsn in dsns
    ]
    answers = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(dsns), answers
    return [int(answer) for answer, _ in answers]


@pytest.mark.thorough
def test_six_processes_that_migrate_at_once_apply_each_file_once(admin_dsn: str) -> None:
    assert sum(run_at_once([database(admin_dsn)] * 6)) == len(FILES)


async def test_databases_of_one_server_are_set_up_at_once(admin_dsn: str) -> None:
    """Roles belong to the whole server, and the lock to one database."""
    ran = await asyncio.gather(*(migrate(database(admin_dsn)) for _ in range(6)))
    assert ran == [FILES] * 6


async def test_a_role_without_superuser_sets_up_a_database_where_the_extension_is(admin_dsn: str) -> None:
    role(admin_dsn, "operator", "createrole")
    dsn = database(admin_dsn, owner="operator", vector=True)
    service_dsn = make_conninfo(dsn, user="mnemic_app", password="of-the-service")
    operator_dsn = make_conninfo(dsn, user="operator", password="secret")
    assert await migrate(operator_dsn, service_dsn=service_dsn) == FILES
    assert await migrate(operator_dsn, service_dsn=service_dsn) == []
    db = Database(service_dsn, Settings())
    await db.open()
    try:
        assert len(await remember(db, identity(), memory("Ana keeps bees."))) == 1
    finally:
        await db.close()


@pytest.mark.parametrize(("role_name", "given"), [("mnemic_app", "service_dsn"), ("mnemic_admin", "admin_dsn")])
async def test_a_role_gets_the_password_of_its_dsn_and_no_other_opens(
    admin_dsn: str, role_name: str, given: str
) -> None:
    dsn = database(admin_dsn)
    await migrate(dsn, **{given: make_conninfo(dsn, user=role_name, password="it's \\ 'quoted'")})
    with psycopg.connect(make_conninfo(dsn, user=role_name, password="it's \\ 'quoted'")) as connection:
        assert connection.info.user == role_name
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(make_conninfo(dsn, user=role_name, password="guessed"))


async def test_a_role_that_may_not_create_the_extension_is_told_who_must(admin_dsn: str) -> None:
    role(admin_dsn, "operator", "createrole")
    dsn = database(admin_dsn, owner="operator")
    with pytest.raises(DatabaseSetupError, match="a superuser must run `create extension vector`"):
        await migrate(make_conninfo(dsn, user="operator", password="secret"))


async def test_a_role_that_may_not_create_roles_is_told_what_it_lacks(admin_dsn: str) -> None:
    role(admin_dsn, "guest", "")
    dsn = database(admin_dsn, owner="guest", vector=True)
    with pytest.raises(DatabaseSetupError, match="MNEMIC_MIGRATION_URL may not set up the database: permission denied"):
        await migrate(make_conninfo(dsn, user="guest", password="secret"))


async def test_a_server_without_pgvector_names_the_package(empty_db: Clone) -> None:
    with empty_db.as_superuser() as connection:
        if connection.info.server_version < 180000:
            pytest.skip("only Postgres 18 can be told to look for extensions elsewhere")
        connection.execute(f"alter database {empty_db.name} set extension_control_path = '/nowhere'")
    with pytest.raises(DatabaseSetupError, match="pgvector is missing on this server: its administrator installs"):
        await migrate(empty_db.superuser_dsn)


async def test_an_old_pgvector_is_named_with_its_remedy(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute("update pg_extension set extversion = '0.7.4' where extname = 'vector'")
    with pytest.raises(DatabaseSetupError, match=r"pgvector 0\.7\.4 is too old: install 0\.8 or newer"):
        await migrate(fresh_db.superuser_dsn)


async def test_an_unreachable_server_is_not_a_stack_of_driver_errors(empty_db: Clone) -> None:
    with pytest.raises(DatabaseUnavailableError, match="MNEMIC_MIGRATION_URL"):
        await migrate(make_conninfo(empty_db.superuser_dsn, dbname="no_such_database"))


async def test_the_extension_may_live_in_a_schema_of_its_own(empty_db: Clone) -> None:
    with empty_db.as_superuser() as connection:
        connection.execute("create schema extensions; create extension vector schema extensions")
        connection.execute("grant usage on schema extensions to public")
    await migrate(empty_db.superuser_dsn)
    async with empty_db.database() as db:
        fact = memory("Ana keeps bees.")
        assert await remember(db, identity(), fact, vectors={fact.id: (1.0, 0.0)}) == {fact.id}
