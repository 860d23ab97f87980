"""Behind a pooler no statement is prepared by name, and without one they are."""

import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BufferedIOBase, RawIOBase
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.doctor import check
from mnemic.storage.embedded.sockets import PORT
from tests.support.server import Clone
from tests.support.threads import answering, at, said, saver_of
from tests.support.worlds import identity, memory, remember

_KEY, _PARSE = b"K", b"P"
#: No process has it.
_NUMBER = struct.pack("!I", 2**31 - 1)


@dataclass
class Relay:
    """One that runs."""

    clone: Clone
    #: The names of the statements that clients asked the server to keep.
    prepared: list[str] = field(default_factory=list)


@contextmanager
def relay(clone: Clone, *, poses: bool) -> Iterator[Relay]:
    """Between the service and this database.

    Args:
        poses: as a pooler.
    """
    with tempfile.TemporaryDirectory(prefix="mnemic-relay-") as directory:
        dsn = make_conninfo(clone.server.admin_dsn, host=directory, port=PORT)
        running = Relay(replace(clone, server=replace(clone.server, admin_dsn=dsn)))

        class Handler(StreamRequestHandler):
            def handle(self) -> None:
                with _server(clone) as server, server.makefile("rb") as answers, server.makefile("wb", 0) as requests:
                    back = Thread(target=_back, args=(answers, self.wfile, poses))
                    back.start()
                    _forth(self.rfile, requests, running.prepared)
                    with suppress(OSError):
                        server.shutdown(socket.SHUT_RDWR)
                    back.join()

        with ThreadingUnixStreamServer(f"{directory}/.s.PGSQL.{PORT}", Handler) as listener:
            serving = Thread(target=listener.serve_forever, args=(0.01,))
            serving.start()
            try:
                yield running
            finally:
                listener.shutdown()
                serving.join()


def _server(clone: Clone) -> socket.socket:
    parts = conninfo_to_dict(clone.superuser_dsn)
    host, port = str(parts["host"]), int(str(parts["port"]))
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(str(Path(host, f".s.PGSQL.{port}")))
    return server


def _forth(client: BufferedIOBase, requests: RawIOBase, prepared: list[str]) -> None:
    size = client.read(4)
    requests.write(size + client.read(struct.unpack("!I", size)[0] - 4))
    for kind, body in _messages(client):
        if kind == _PARSE and (name := body.partition(b"\0")[0]):
            prepared.append(name.decode())
        with suppress(BrokenPipeError):
            requests.write(_framed(kind, body))


def _back(server: BufferedIOBase, answers: BufferedIOBase, poses: bool) -> None:
    for kind, body in _messages(server):
        with suppress(OSError):
            answers.write(_framed(kind, _NUMBER + body[4:] if poses and kind == _KEY else body))


def _messages(stream: BufferedIOBase) -> Iterator[tuple[bytes, bytes]]:
    with suppress(ConnectionError):
        while head := stream.read(5):
            yield head[:1], stream.read(struct.unpack("!I", head[1:])[0] - 4)


def _framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


#: One more than psycopg sends before it prepares.
TIMES = 6


async def use(db: Database) -> None:
    """Reads, writes and talks, each often enough that the driver would prepare it."""
    for number in range(TIMES):
        await remember(db, identity(), memory(f"Ana has {number} hives."))
        await answering(saver_of(db)).ainvoke(said("hello"), at("t"))


@pytest.mark.parametrize(
    ("poses", "pooler", "prepares"),
    [
        (True, "auto", False),
        (True, "none", True),
        (True, "transaction", False),
        (False, "auto", True),
        (False, "transaction", False),
    ],
)
async def test_statements_are_prepared_only_where_a_connection_stays_the_same(
    clean_db: Clone, poses: bool, pooler: str, prepares: bool
) -> None:
    with relay(clean_db, poses=poses) as between:
        async with between.clone.database(Settings(pooler=pooler)) as db:
            await use(db)
            (found,) = [finding for finding in await check(db) if finding.name == "pooler"]
    assert bool(between.prepared) == prepares
    assert found.ok
    assert ("session" in found.note) == poses
    assert found.note.endswith("on" if prepares else "off")
