"""Runs tests of a checkout in a process of their own."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a run ended: the tests that failed, or files that cannot be imported; or why there was no run."""

    failed: list[str]
    broken: str


def run_tests(tree: Path, arguments: Sequence[str], timeout: float) -> Ended:
    """Run pytest with the checkout's own `.venv`, and stop it after so many seconds."""
    with tempfile.TemporaryDirectory() as directory:
        command = [str(tree / ".venv/bin/python"), "-m", "pytest", "-q", "-p", "no:randomly", "-m", "not slow"]
        command += ["-o", f"cache_dir={directory}", *arguments]
        process = subprocess.Popen(  # noqa: S603
            command, cwd=tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGINT)  # lets it stop its Postgres
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        listed = Path(directory) / "v/cache/lastfailed"
        failed = list(json.loads(listed.read_text())) if listed.exists() else []
    if status is None:
        return Ended(failed, f"stopped after {timeout:.0f} s")
    return Ended(failed, "" if failed or status in (0, 5) else "cannot be imported")
