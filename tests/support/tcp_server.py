"""A private Postgres server as an administrator would run one: TCP, SCRAM passwords, none of Mnemic's roles."""

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from mnemic.storage.embedded.account import server_account
from mnemic.storage.embedded.binaries import find_binaries, reachable_binaries
from tests.support.server import fast_directory

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
