"""A private, durable server that can be killed with `kill -9` and started again."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from mnemic.storage.embedded import EmbeddedPostgres, sockets
from mnemic.storage.migrate import migrate
from tests.support.server import Clone, Server, fast_directory

DATABASE = "mnemic"


class CrashingServer:
    """An embedded server with a migrated database. What it has acknowledged must be there after each crash."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._embedded = EmbeddedPostgres(base)
        self._embedded.start()
        with psycopg.connect(self._embedded.dsn(), autocommit=True) as connection:
            connection.execute(f"create database {DATABASE}")
        asyncio.run(migrate(self._embedded.dsn(dbname=DATABASE)))

    @property
    def clone(self) -> Clone:
        """Its database, to be used as the tests' other ones are."""
        return Clone(server=Server(admin_dsn=self._embedded.dsn(), log=None, clone_strategy="wal_log"), name=DATABASE)

    def kill(self) -> None:
        """`kill -9` of the postmaster, which is dead when this returns; its other processes notice and end."""
        os.kill(int((self.base / "data" / "postmaster.pid").read_text().split("\n")[0]), signal.SIGKILL)
        directory = Path(str(conninfo_to_dict(self._embedded.dsn())["host"]))
        while sockets.is_listening(directory):  # a start that still found it there would do nothing
            time.sleep(0.001)

    def starts(self) -> int:
        """How often it was started."""
        return (self.base / "server.log").read_text().count("starting PostgreSQL")

    def restart(self) -> None:
        """Starts it again; returns when it has recovered and accepts connections."""
        self._embedded.start()

    def stop(self) -> None:
        """Stops it, whether it runs or not."""
        self._embedded.start()
        self._embedded.stop()


@contextmanager
def crashing_server() -> Iterator[CrashingServer]:
    """One in a directory of its own, which goes with it."""
    with tempfile.TemporaryDirectory(dir=fast_directory(), prefix="mnemic-crash-") as directory:
        server = CrashingServer(Path(directory))
        try:
            yield server
        finally:
            server.stop()
