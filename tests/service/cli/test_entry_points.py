"""The ways into the command line, as a process of its own."""

import os
import subprocess
import sys

import pytest

from mnemic import __version__
from tests.support.wheel import ROOT


def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("module", ["mnemic", "mnemic.service.cli"])
def test_the_package_runs_as_a_module_and_tells_its_version(module: str) -> None:
    done = run("-m", module, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


def test_without_a_command_it_shows_the_help() -> None:
    done = run("-m", "mnemic")
    assert "Long-term memory for LangGraph agents" in done.stdout
    assert "--version" in done.stdout


def test_a_server_with_a_key_that_is_too_short_ends_with_one_line() -> None:
    done = run("-c", "import mnemic.service.server.auth", MNEMIC_SERVER_KEY="short")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "mnemic: settings do not fit: MNEMIC_SERVER_KEY: is a secret of at least 16 characters\n"
    assert run("-c", "import mnemic.service.server.auth", MNEMIC_SERVER_KEY="sixteen characters").returncode == 0
