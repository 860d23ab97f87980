"""The terminal of `mnemic chat`: lines come in while the event loop goes on, answers go to standard output."""

import asyncio
import io
import os
import select
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from mnemic.policy.text.shape import visible
from mnemic.service.cli.terminal import note
from mnemic.state.query import Bullet, Sign

PROMPT: Final = "you> "
#: Nobody types so much, and no line fills the memory.
MAX_LINE_BYTES: Final = 1 << 20
_PIECE: Final = 65_536
#: What became of a memory, in the person's words.
_WORDS: Final[Mapping[Sign, str]] = MappingProxyType(
    {
        "+created": "+ remembered",
        "↑updated": "↑ updated",
        "↔merged": "↔ merged",
        "~soft-deleted": "~ forgotten",
        "−deleted": "− deleted",
        "⟲restored": "⟲ restored",
    }
)


class ChatTerminal:
    """The terminal, or a pipe, where nothing asks for input. All but the answer goes to standard error."""

    def __init__(self) -> None:
        #: Whether somebody types.
        self.is_watched = sys.stdin is not None and sys.stdin.isatty()
        self._lines = _Lines()
        #: Whether the answer's last line is still open.
        self._is_open = False
        self._prompt = ""

    async def ask(self, prompt: str = PROMPT) -> str | None:
        """The next line, asked for at a terminal; None: there are no more."""
        self._end_line()
        self._prompt = prompt if self.is_watched else ""
        self._show_prompt()
        line = await self._lines.next()
        self._prompt = ""
        return line

    def end_input(self) -> None:
        """Nothing more is wanted."""
        self._lines.end()

    def show_piece(self, text: str) -> None:
        """The next piece of the answer."""
        shown = visible(text)
        sys.stdout.write(shown)
        sys.stdout.flush()
        self._is_open = not shown.endswith("\n") if shown else self._is_open

    def end_answer(self) -> None:
        """What follows begins on a line of its own."""
        self._end_line()

    def show_notes(self, lines: Sequence[str]) -> None:
        """Lines beside the conversation, if there are any; where somebody is being asked, the prompt comes again."""
        if not lines:
            return
        self._end_line()
        if self._prompt:
            sys.stderr.write("\n")
        for line in lines:
            note(line)
        self._show_prompt()

    def show_updates(self, bullets: Sequence[Bullet]) -> None:
        """What became of memories, a line each."""
        self.show_notes([_update(bullet) for bullet in bullets])

    def _end_line(self) -> None:
        if self._is_open:
            self.show_piece("\n")

    def _show_prompt(self) -> None:
        sys.stderr.write(self._prompt)
        sys.stderr.flush()


def _update(bullet: Bullet) -> str:
    notes = f" {bullet.combined} {'note' if bullet.combined == 1 else 'notes'}" if bullet.combined else ""
    return f"{_WORDS[bullet.sign]}{notes}: {bullet.text or 'a memory whose words are not shown'}"


class _Lines:
    """Standard input, line by line. A thread reads it, for neither a terminal nor a file may be asked otherwise."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_lines: asyncio.Queue[str | None] = asyncio.Queue()
        # a thread that waits for a terminal must not keep the process
        threading.Thread(target=self._read_all, args=(_reader(),), daemon=True).start()

    async def next(self) -> str | None:
        line = await self._read_lines.get()
        if line is None:
            self.end()  # and so it stays
        return line

    def end(self) -> None:
        self._read_lines.put_nowait(None)

    def _read_all(self, read: Callable[[], bytes]) -> None:
        rest = b""
        while piece := read():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._put_line(line)
            rest = rest[: MAX_LINE_BYTES + 1]
        if rest:
            self._put_line(rest)
        self._put(None)

    def _put_line(self, line: bytes) -> None:
        self._put(line[:MAX_LINE_BYTES].decode(errors="replace"))

    def _put(self, line: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._read_lines.put_nowait, line)
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
