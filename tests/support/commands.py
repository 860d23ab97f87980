"""`mnemic` as a user types it: in this process, where it has a pipe; and at a terminal, where it asks."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from typing import BinaryIO, Self

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from mnemic.service.cli.app import app

# the runner reads the signatures of all commands at every call, which is a third of what one takes; once will do
pytest.MonkeyPatch().setattr("typer.testing._get_command", cache(get_command))


def invoke(*words: str, catch_exceptions: bool = False, typed: str | bytes | None = None) -> Result:
    """Runs a command; what it does not catch itself is raised, or is the result's. What is typed comes from a pipe."""
    return CliRunner().invoke(app, words, input=typed, catch_exceptions=catch_exceptions)


class Terminal:
    """`mnemic` at a terminal, which shows whatever it prints but into a file; a context manager that ends it."""

    def __init__(self, *words: object, env: Mapping[str, str], stdout: BinaryIO | None = None) -> None:
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "mnemic", *map(str, words)]
        own = {**os.environ, "TERM": "dumb", **env}
        self.process = subprocess.Popen(command, stdin=theirs, stdout=stdout or theirs, stderr=theirs, env=own)
        os.close(theirs)
        self._shown = ""

    def type(self, line: str) -> None:
        """Types a line."""
        os.write(self._ours, f"{line}\n".encode())

    def until(self, text: str, *, seconds: float = 60) -> str:
        """What is shown up to this text and with it, from where the last call ended."""
        end = time.monotonic() + seconds
        while text not in self._shown:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, end - time.monotonic()))
            piece = self._read() if ready else b""
            assert piece, f"never shown: {text!r}; but {self._shown!r}"
            self._shown += piece.decode(errors="replace").replace("\r\n", "\n")
        shown, _, self._shown = self._shown.partition(text)
        return shown + text

    def stop(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self, line: str = "/quit", *, code: int = 0) -> str:
        """The last line; what is shown until the command is over."""
        self.type(line)
        shown = self._shown
        while piece := self._read():
            shown += piece.decode(errors="replace").replace("\r\n", "\n")
        assert self.process.wait(60) == code, shown
        return shown

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, 65_536)
        except OSError:  # so Linux says that nobody is at the other end any more
            return b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
