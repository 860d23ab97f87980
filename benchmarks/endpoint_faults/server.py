"""A server on loopback that fails as it is told, and is healthy otherwise."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from benchmarks.endpoint_faults.faults import Fault, Place, good_body, http


class FaultyEndpoint:
    """Speaks HTTP by hand, so that it can also speak none."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers
        self._fault: Fault | None = None
        self._server: asyncio.Server | None = None
        self._port = 0
        #: Requests since the fault began.
        self.requests = 0

    @property
    def url(self) -> str:
        """Of the settings."""
        return f"http://127.0.0.1:{self._port}/v1"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FaultyEndpoint"]:
        """Until the block ends."""
        await self._listen()
        try:
            yield self
        finally:
            await self._stop()

    @asynccontextmanager
    async def failing(self, fault: Fault) -> AsyncIterator[None]:
        """Fails so until the block ends."""
        self._fault, self.requests = fault, 0
        if fault.away:
            await self._stop()
        try:
            yield
        finally:
            self._fault = None
            if fault.away:
                await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        if self._server:
            self._server.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # whoever waits in an endless answer when all is over is cancelled
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            path, request = await _read(reader)
            good = good_body(path, request, self._answers)
            place: Place = "embed" if "input" in request else "answer" if request.get("stream") else "form"
            fault = self._fault if self._fault and self._fault.place == place else None
            if fault is None:
                is_stream = bool(request.get("stream"))
                body = b"data: " + good + b"\n\ndata: [DONE]\n\n" if is_stream else good
                writer.write(http(200, body, "text/event-stream" if is_stream else "application/json"))
            else:
                self.requests += 1
                if fault.sends:
                    async for piece in fault.sends(good):
                        writer.write(piece)
                        await writer.drain()
            await writer.drain()
        writer.close()


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, Any]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lines = head.split("\r\n")
    lengths = [int(line.partition(":")[2]) for line in lines if line.lower().startswith("content-length:")]
    body = await reader.readexactly(lengths[0] if lengths else 0)
    return lines[0].split(" ")[1], json.loads(body or b"{}")
