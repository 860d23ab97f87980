"""A database that cannot be had is one typed error, with its cause, within the time that a setting names."""

import asyncio
import logging
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mnemic import Administration, Mnemic
from mnemic.state.errors import DatabaseUnavailableError
from mnemic.state.settings import Settings
from mnemic.storage.embedded.server import EmbeddedPostgres
from mnemic.storage.opening import set_up_database
from tests.support.server import Clone, fast_directory

LIMIT = 0.3
#: What a busy machine may add to the limit; today's wait for the same was ten seconds.
SLACK = 4.0


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


@contextmanager
def closed_port() -> Iterator[int]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, and not listening: nothing else gets it meanwhile
        yield int(bound.getsockname()[1])


async def opened(dsn: str) -> None:
    async with Mnemic.open(database_url=dsn, embedder="hash", settings=Settings(pool_timeout_seconds=LIMIT)):
        pass


async def opened_by_an_administrator(dsn: str) -> None:
    async with Administration.open(admin_url=dsn, settings=Settings(database_url=dsn, pool_timeout_seconds=LIMIT)):
        pass


async def set_up(dsn: str) -> None:
    await set_up_database(Settings(database_url=dsn, migration_url=dsn, pool_timeout_seconds=LIMIT))


@pytest.mark.parametrize("entry", [opened, opened_by_an_administrator, set_up])
@pytest.mark.parametrize("port", [silent_port, closed_port])
async def test_a_port_without_a_database_is_told_in_time_and_once(
    port: Callable[[], AbstractContextManager[int]],
    entry: Callable[[str], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with port() as number, caplog.at_level(logging.WARNING):
        begun = time.monotonic()
        with pytest.raises(DatabaseUnavailableError, match=r"MNEMIC_[A-Z]+_URL"):
            await entry(f"postgresql://mnemic_app:hidden@127.0.0.1:{number}/mnemic")
        assert time.monotonic() - begun < LIMIT + SLACK
    assert caplog.records == []


@pytest.mark.parametrize("entry", [opened, opened_by_an_administrator, set_up])
async def test_a_database_that_does_not_exist_is_told_at_once(
    clean_db: Clone, entry: Callable[[str], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(DatabaseUnavailableError, match="no_such_database"):
        await entry(make_conninfo(clean_db.service_dsn, dbname="no_such_database"))
    assert caplog.records == []


@pytest.fixture
def with_passwords() -> Iterator[EmbeddedPostgres]:
    """A server whose service role needs a password."""
    with (
        TemporaryDirectory(dir=fast_directory(), prefix="mnemic-password-") as directory,
        EmbeddedPostgres(Path(directory)) as embedded,
    ):
        Path(directory, "data", "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        with psycopg.connect(embedded.dsn(), autocommit=True) as connection:
            connection.execute("create role mnemic_app login password 'right'")
            connection.execute("select pg_reload_conf()")
        yield embedded


@pytest.mark.thorough
async def test_a_wrong_password_is_told_and_not_shown(
    with_passwords: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    dsn = make_conninfo(with_passwords.dsn("mnemic_app"), password="hidden-and-wrong")
    with caplog.at_level(logging.WARNING), pytest.raises(DatabaseUnavailableError, match="password") as caught:
        await opened(dsn)
    assert "hidden-and-wrong" not in str(caught.value)
    assert caplog.records == []


#: What Postgres answers while it recovers.
STARTING = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"


async def test_a_server_that_is_starting_is_waited_for(clean_db: Clone) -> None:
    path = f"{conninfo_to_dict(clean_db.service_dsn)['host']}/.s.PGSQL.5432"
    refused = 0
    served = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        served.append(asyncio.current_task())
        if refused < 2:
            refused += 1
            await reader.read(1 << 16)
            writer.write(b"E" + struct.pack("!i", len(STARTING) + 4) + STARTING)
            writer.close()
            await writer.wait_closed()
            return
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        await asyncio.gather(pass_on(reader, inner_writer), pass_on(inner_reader, writer))
        for each in (writer, inner_writer):
            await each.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        dsn = make_conninfo(clean_db.service_dsn, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")
        async with Mnemic.open(database_url=dsn, embedder="hash", settings=Settings(pool_size=1, pooler="none")):
            assert refused == 2
        await asyncio.gather(*filter(None, served))


@pytest.mark.thorough
@pytest.mark.parametrize("words", [["doctor"], ["memories", "--agent", "guide", "--user", "ana"], ["db", "migrate"]])
def test_a_command_says_it_in_one_line(words: list[str]) -> None:
    with closed_port() as port:
        dsn = f"postgresql://mnemic_app@127.0.0.1:{port}/mnemic"
        settings = {"MNEMIC_DATABASE_URL": dsn, "MNEMIC_MIGRATION_URL": dsn, "MNEMIC_POOL_TIMEOUT_SECONDS": str(LIMIT)}
        command = [sys.executable, "-m", "mnemic", *words]
        done = subprocess.run(
            command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mnemic: no connection with MNEMIC_")
    assert done.stderr.count("\n") == 1
