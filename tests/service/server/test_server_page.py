"""The commands of docs/server.md against a server without a key, as `make serve` starts it."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.served import ROOT, DevServer, running_dev_server
from tests.support.server import Server, cloned

pytestmark = pytest.mark.thorough

PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:2024"
THREAD = "0b6f9e52-6d3c-4a53-9f0b-1f2a3b4c5d6e"
#: The folder of the JavaScript SDK; `npm install --prefix build/javascript @langchain/langgraph-sdk` makes it.
PACKAGES = ROOT / "build" / "javascript" / "node_modules"


@pytest.fixture(scope="module")
def running(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    with cloned(server, template) as clone:
        values = {"MNEMIC_DATABASE_URL": clone.service_dsn, "MNEMIC_EMBEDDER": "hash"}
        with running_dev_server(tmp_path_factory.mktemp("host"), values) as running:
            yield running


def blocks(heading: str, language: str) -> list[str]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    values = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(command, cwd=folder, env=values, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_the_commands_of_the_page_run(running: DevServer, tmp_path: Path) -> None:
    script = "\n".join(blocks("With curl", "sh")).replace(ADDRESS, running.url)
    failing = 'set -euo pipefail; curl() { command curl --fail-with-body "$@"; }\n'
    printed = run(["bash", "-c", failing + script], tmp_path)
    assert "event: messages" in printed
    assert "Ana lives in Porto." in printed
    async with running.client() as client:
        assert len(await client.runs.list(THREAD)) == 3
        assert await client.crons.search() == []


def test_the_program_of_the_page_runs(running: DevServer, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not PACKAGES.is_dir():
        pytest.skip("run: npm install --prefix build/javascript @langchain/langgraph-sdk")
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    (program,) = blocks("With the JavaScript SDK", "js")
    program = program.replace(ADDRESS, running.url).replace('ana"', 'bea"')  # a person without memories
    (tmp_path / "page.mjs").write_text(program, encoding="utf-8")
    assert "lives in Porto." in run(["node", "page.mjs"], tmp_path)


def test_make_serve_refuses_a_port_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    for stamp in (".made", ".serve"):
        (tmp_path / stamp).touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["make", "serve", f"VENV={tmp_path}", f"PORT={port}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert str(port) in done.stderr
    assert "PORT=" in done.stderr
