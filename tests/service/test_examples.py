"""The examples: each runs without a key, and from the wheel, beside a host's packages named as our rooms."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mnemic.examples import agent, compose, explicit, unsure
from tests.support.server import Clone, fast_directory
from tests.support.wheel import ROOMS, ROOT, build_wheel


@pytest.fixture
def offline(clean_db: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example finds in its environment: a database, and neither a key nor an endpoint."""
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("example", "printed"),
    [
        (compose, ["allergic to nuts"]),
        (unsure, ["allergic to nuts", "1 of 4 turns searched"]),
        (
            explicit,
            [
                "found, and forgotten: Ana sails to Ryd in May.",
                "supervisor: Ana wants short answers.",
                "planner: nothing",
                "stylist: Ana wants short answers.",
            ],
        ),
    ],
)
async def test_an_example_runs_without_a_key(
    example: ModuleType, printed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    await example.main()
    out = capsys.readouterr().out
    assert [text for text in printed if text not in out] == []


@pytest.mark.usefixtures("offline")
async def test_the_agent_is_recalled_for_and_asks_by_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    await agent.main()
    recalled, asked = capsys.readouterr().out.split("A model would answer here")[1:]
    assert "<RetrievedMemories>" in recalled
    assert "allergic to nuts" in recalled
    assert "<RetrievedMemories>" not in asked
    assert "allergic to nuts" in asked


def test_the_guide_shows_the_tested_code() -> None:
    examples = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py"))
    guide = (ROOT / "docs/integration.md").read_text(encoding="utf-8")
    shown = [part.split("```", 1)[0] for part in guide.split("```python\n")[1:]]
    assert len(shown) == 4
    for code in shown:
        assert any(textwrap.indent(code, " " * depth) in examples for depth in (0, 4, 8)), code


#: A host's program. It imports its own packages first and looks at them again last; with a word after the report's name
#: it runs every example, all of them on one embedded server.
PROGRAM = """
import asyncio, importlib, json, sys
from pathlib import Path

report, rooms, runs = Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
owners = [importlib.import_module(room).OWNER for room in rooms]

import mnemic.tools, mnemic.state
from mnemic import MemoryMiddleware, MemoryState, Mnemic
from mnemic.examples import agent, compose, explicit, unsure

async def main():
    async with Mnemic.open():
        for example in (compose, agent, unsure, explicit):
            await example.main()

if runs:
    asyncio.run(main())
files = {name: module.__file__ for name, module in sys.modules.items() if getattr(module, "__file__", None)}
ours = {name: file for name, file in files.items() if name.partition(".")[0] == "mnemic"}
theirs = {room: [files[room], owner, importlib.import_module(room).OWNER] for room, owner in zip(rooms, owners)}
report.write_text(json.dumps({"path": sys.path, "ours": ours, "theirs": theirs, "files": list(files.values())}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with nothing but what the wheel installs."""
    work = tmp_path_factory.mktemp("wheel")
    target = work / "installed"
    wheel = build_wheel(work)
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True, timeout=120)
    return target


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host's folder: packages with the names of our rooms, and a program beside them."""
    for room in ROOMS.values():
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("OWNER = 'host'\n", encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


@pytest.fixture
def server_directory() -> Iterator[Path]:
    """Where the embedded server may live: a socket's path has at most 107 bytes."""
    directory = fast_directory() / f"mnemic-wheel-{os.getpid()}"
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def run(host: Path, path: Sequence[Path], *runs: str, **environment: str) -> tuple[dict[str, Any], str]:
    """What the host's program found, and what it printed, with these directories before the installed packages."""
    report = host / "report.json"
    command = [sys.executable, "program.py", str(report), ",".join(ROOMS.values()), *runs]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment}
    done = subprocess.run(command, cwd=host, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text(encoding="utf-8")), done.stdout


def strays(found: dict[str, Any], installed: Path, host: Path) -> list[str]:
    """Modules of ours that are not the wheel's, packages that are not the host's, and whatever is the checkout's."""
    ours = [name for name, file in found["ours"].items() if not Path(file).is_relative_to(installed)]
    theirs = [
        room
        for room, (file, *owners) in found["theirs"].items()
        if not Path(file).is_relative_to(host) or owners != ["host", "host"]
    ]
    rooms = [ROOT / folder for folder in ("mnemic", *ROOMS.values())]
    files = [file for file in found["files"] if any(Path(file).is_relative_to(room) for room in rooms)]
    return [*ours, *theirs, *files, *(entry for entry in found["path"] if Path(entry).resolve() == ROOT)]


@pytest.mark.thorough
def test_every_example_runs_from_the_wheel_beside_a_hosts_own_packages(
    installed: Path, host: Path, server_directory: Path
) -> None:
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} <= {"mnemic", "bin"}
    found, printed = run(host, [installed], "all", MNEMIC_DATA_DIR=str(server_directory))

    assert strays(found, installed, host) == []
    assert len(found["ours"]) > 100
    assert printed.count("Lea is allergic to nuts") >= 4
    assert "1 of 4 turns searched" in printed
    assert "planner: nothing" in printed


@pytest.mark.thorough
def test_control_a_checkout_on_the_path_is_seen(installed: Path, host: Path) -> None:
    found, _ = run(host, [ROOT, installed])

    assert "mnemic.tools" in strays(found, installed, host)
    assert str(ROOT) in strays(found, installed, host)


@pytest.mark.thorough
def test_control_a_wheel_with_a_room_of_its_own_is_seen(installed: Path, host: Path) -> None:
    shutil.rmtree(host / "tools")
    (host / "lib" / "tools").mkdir(parents=True)
    (host / "lib" / "tools" / "__init__.py").write_text("OWNER = 'mnemic'\n", encoding="utf-8")
    found, _ = run(host, [host / "lib", installed])

    assert strays(found, installed, host) == ["tools"]
