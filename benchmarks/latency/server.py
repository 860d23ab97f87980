"""A Postgres server of the measurement's own, and its databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mnemic.storage.embedded.server import EmbeddedPostgres

#: Everything stays in memory, for all alike; the CPU of a parallel worker could not be told from anybody else's.
_SETTINGS = {"shared_buffers": "1GB", "maintenance_work_mem": "512MB", "max_parallel_workers_per_gather": "0"}


@dataclass(frozen=True)
class BenchServer:
    """A running server, reached as superuser."""

    admin_dsn: str

    @property
    def admin(self) -> psycopg.Connection:
        """A new connection to the server's own database."""
        return psycopg.connect(self.admin_dsn, autocommit=True)

    def new_database(self, name: str) -> str:
        """Return the DSN of an empty database of this name."""
        with self.admin as connection:
            for statement in ("drop database if exists {} with (force)", "create database {}"):
                connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
        return make_conninfo(self.admin_dsn, dbname=name)


@contextmanager
def bench_server() -> Iterator[BenchServer]:
    """Start a server in a directory that is removed afterwards; commits wait for the disk as in production."""
    folder = Path(gettempdir()) / f"mnemic-latency-{uuid4().hex[:12]}"  # not mkdtemp's, which only root could enter
    try:
        with EmbeddedPostgres(folder, settings=_SETTINGS) as server:
            yield BenchServer(server.dsn())
    finally:
        rmtree(folder, ignore_errors=True)
