"""A command at a terminal, where it asks; in a pipe it does not."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping


def at_a_terminal(*words: object, answer: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs `mnemic` with these words, and types the answer; what it prints goes into pipes."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    try:
        return subprocess.run(
            [sys.executable, "-m", "mnemic.service.cli", *map(str, words)],
            stdin=theirs,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, **env},
        )
    finally:
        os.close(ours)
        os.close(theirs)
