"""A relay before the database that loses its notifications, as a pooler in transaction mode does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.server import Clone

#: Messages of the server by their first byte.
_NOTIFICATION, _PROCESS = b"A", b"K"
_HEADER_BYTES = 5


@dataclass
class Relay:
    """A relay, and how many notifications it has lost."""

    clone: Clone
    lost: int = 0


@asynccontextmanager
async def losing_notifications(clone: Clone, *, hides_process: bool) -> AsyncIterator[Relay]:
    """Relay connections to the database of a clone.

    Args:
        clone: with the database.
        hides_process: clients get process numbers of the relay's own, as pgbouncer gives them.
    """
    socket = "{host}/.s.PGSQL.{port}".format(**conninfo_to_dict(clone.server.admin_dsn))

    connections: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        connections.add(task)
        answers, requests = await asyncio.open_unix_connection(socket)
        copies = [
            asyncio.create_task(_copy(reader, requests)),
            asyncio.create_task(_copy_answers(answers, writer, relay, hides_process=hides_process)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)  # one end has hung up
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            for end in (requests, writer):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    dsn = make_conninfo(clone.server.admin_dsn, host=host, port=port, sslmode="disable", gssencmode="disable")
    relay = Relay(replace(clone, server=replace(clone.server, admin_dsn=dsn)))
    try:
        yield relay
    finally:
        server.close()
        await asyncio.gather(*connections)  # which end with their clients


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(65_536):
        target.write(piece)
        await target.drain()


async def _copy_answers(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, relay: Relay, *, hides_process: bool
) -> None:
    while True:
        header = await source.readexactly(_HEADER_BYTES)
        body = await source.readexactly(int.from_bytes(header[1:]) - 4)
        if header[:1] == _NOTIFICATION:
            relay.lost += 1
            continue
        if header[:1] == _PROCESS and hides_process:
            body = (int.from_bytes(body[:4]) + 1).to_bytes(4) + body[4:]
        target.write(header + body)
        await target.drain()
