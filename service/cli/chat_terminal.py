"""The terminal of `mnemic chat`: lines come in while the event loop goes on, answers go to standard output."""

import asyncio
import io
import select
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from rich.console import Console
from rich.text import Text

from mnemic.policy.text.shape import visible
from mnemic.service.cli.terminal import counted, plain
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
        #: Whether the answer's last line is still open.
        self._is_open = False
        self._prompt = ""
        self._loop = asyncio.get_running_loop()
        #: What was typed; None: nothing more comes.
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        # neither a terminal nor a file may be read otherwise, and a thread that waits must not keep the process
        threading.Thread(target=self._read_all, daemon=True).start()

    async def ask(self, prompt: str = PROMPT) -> str | None:
        """The next line, asked for at a terminal; None: there are no more."""
        self.end_line()
        self._prompt = prompt if self.is_watched else ""
        self._show_prompt()
        line = await self._lines.get()
        self._prompt = ""
        if line is None:
            self.end_input()  # and so it stays
        return line

    def end_input(self) -> None:
        """Nothing more is wanted."""
        self._lines.put_nowait(None)

    def show_piece(self, text: str) -> None:
        """The next piece of the answer."""
        shown = visible(text)
        sys.stdout.write(shown)
        sys.stdout.flush()
        self._is_open = not shown.endswith("\n") if shown else self._is_open

    def show_notes(self, lines: Sequence[str]) -> None:
        """Lines beside the conversation, if there are any; where somebody is being asked, the prompt comes again."""
        if not lines:
            return
        self.end_line()
        if self._prompt:
            sys.stderr.write("\n")
        console = Console(stderr=True, soft_wrap=True)
        for line in lines:
            console.print(Text("  ") + plain(line, "dim"), highlight=False)
        self._show_prompt()

    def show_updates(self, bullets: Sequence[Bullet]) -> None:
        """What became of memories, a line each."""
        lines = []
        for bullet in bullets:
            notes = f" {counted(bullet.combined, 'note', 'notes')}" if bullet.combined else ""
            lines.append(f"{_WORDS[bullet.sign]}{notes}: {bullet.text or 'a memory whose words are not shown'}")
        self.show_notes(lines)

    def end_line(self) -> None:
        """What follows begins on a line of its own."""
        if self._is_open:
            self.show_piece("\n")

    def _show_prompt(self) -> None:
        sys.stderr.write(self._prompt)
        sys.stderr.flush()

    def _read_all(self) -> None:
        # without Python's buffer: whoever waits in it when the process ends makes that end a crash
        source = sys.stdin and getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        rest = b""
        while piece := source and _read(source):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._put(line)
            rest = rest[: MAX_LINE_BYTES + 1]
        if rest:
            self._put(rest)
        self._put(None)

    def _put(self, line: bytes | None) -> None:
        text = None if line is None else line[:MAX_LINE_BYTES].decode(errors="replace")
        with suppress(RuntimeError):  # the chat is over
            self._loop.call_soon_threadsafe(self._lines.put_nowait, text)


def _read(source: io.RawIOBase) -> bytes:
    """The next piece; what cannot be read, such as a terminal that is gone, is at its end."""
    try:
        while (piece := source.read(_PIECE)) is None:  # whoever shares the terminal has set it not to block
            select.select([source], [], [])
    except OSError:
        return b""
    return piece
