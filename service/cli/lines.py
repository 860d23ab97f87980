"""Lines that somebody types, or a pipe brings, while the event loop goes on."""

import asyncio
import io
import os
import select
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

#: Nobody types so much, and no line fills the memory.
MAX_LINE_BYTES: Final = 1 << 20
_PIECE: Final = 65_536


class Lines:
    """Standard input, line by line. A thread reads it, for neither a terminal nor a file may be asked otherwise."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._come: asyncio.Queue[str | None] = asyncio.Queue()
        # a thread that waits for a terminal must not keep the process
        threading.Thread(target=self._read_all, args=(_reader(),), daemon=True).start()

    async def next(self) -> str | None:
        """The next line; None: there are no more."""
        line = await self._come.get()
        if line is None:
            self.end()  # and so it stays
        return line

    def end(self) -> None:
        """Nothing more is wanted."""
        self._come.put_nowait(None)

    def _read_all(self, read: Callable[[], bytes]) -> None:
        held = b""
        while piece := read():
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                self._bring(line)
            held = held[: MAX_LINE_BYTES + 1]
        if held:
            self._bring(held)
        self._put(None)

    def _bring(self, line: bytes) -> None:
        self._put(line[:MAX_LINE_BYTES].decode(errors="replace"))

    def _put(self, line: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._come.put_nowait, line)
        except RuntimeError:
            return  # the chat is over


def _reader() -> Callable[[], bytes]:
    """Without Python's buffer: whoever waits in it when the process ends makes that end a crash."""
    if sys.stdin is None:  # closed before the process began
        return bytes
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:
        return lambda: sys.stdin.buffer.read(_PIECE)  # what stands in for it in a test
    return partial(_read, descriptor)


def _read(descriptor: int) -> bytes:
    """The next piece; what cannot be read, such as a terminal that is gone, is at its end."""
    while True:
        try:
            select.select([descriptor], [], [])  # it may have been set not to block, by whoever shares the terminal
            return os.read(descriptor, _PIECE)
        except BlockingIOError:
            continue  # another reader was faster
        except OSError:
            return b""
