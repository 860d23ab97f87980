"""The snippets of README.md and docs/: programs run, parts have every name they use, and commands exist."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from mnemic.service.cli.app import app
from tests.support.server import Clone
from tests.support.snippets import Snippet, commands, snippets, write_programs
from tests.support.wheel import ROOT

#: Runs the programs one after the other, each as `__main__`, and prints the end of each.
RUNNER = """
import runpy, sys
for program in sys.argv[1:]:
    runpy.run_path(program, run_name="__main__")
    print(f"-- end of {program}", flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snippets")


@pytest.fixture(scope="module")
def programs(folder: Path) -> dict[str, Snippet]:
    return write_programs(folder)


def checked(*command: str, cwd: Path, **environment: str) -> str:
    own = {**os.environ, **environment}
    ran = subprocess.run(command, cwd=cwd, env=own, check=False, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_every_snippet_has_the_names_that_it_uses(folder: Path, programs: dict[str, Snippet]) -> None:
    for name in programs:
        compile((folder / name).read_bytes(), name, "exec")
    checked(sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F823", ".", cwd=folder)


def test_every_snippet_of_the_readme_has_its_imports(programs: dict[str, Snippet]) -> None:
    readme = [each for each in programs.values() if each.place.startswith("README.md")]

    assert readme
    assert [each.place for each in readme if not each.is_whole] == []


def test_the_readme_begins_with_the_commands_of_a_new_user() -> None:
    first, second, *_ = [each.code.strip() for each in snippets("sh") if each.place.startswith("README.md")]

    assert (first, second) == ("make demo", "make test")


def test_the_first_program_of_the_readme_is_short() -> None:
    assert len(snippets("python")[0].code.splitlines()) <= 30


def test_every_whole_program_runs_without_a_key(folder: Path, programs: dict[str, Snippet], clean_db: Clone) -> None:
    runs = [name for name, each in programs.items() if each.is_whole and each.needs is None]
    environment = {"MNEMIC_DATABASE_URL": clean_db.service_dsn, "MNEMIC_EMBEDDER": "hash"}
    printed = checked(sys.executable, "-W", "error", "-c", RUNNER, *runs, cwd=folder, **environment)

    assert len(runs) >= 3
    assert re.findall(r"-- end of (\S+)", printed) == runs
    assert "Lea is allergic to nuts" in printed.partition("-- end of")[0]


@pytest.mark.thorough
def test_every_snippet_passes_a_type_checker(folder: Path, programs: dict[str, Snippet]) -> None:
    options = ["--strict", "--ignore-missing-imports", "--cache-dir", str(folder / "cache")]
    checked(sys.executable, "-m", "mypy", *options, *programs, cwd=folder)


def flaw(words: list[str]) -> str | None:
    """What the command line does not have of these words; None if it has all."""
    command = get_command(app)
    for word in words:
        if word.startswith("--"):
            options = {"--help"}.union(*([*each.opts, *each.secondary_opts] for each in command.params))
            if word.partition("=")[0] not in options:
                return word
        elif (subcommands := getattr(command, "commands", None)) and not word.isupper() and word != "...":
            if word not in subcommands:
                return word
            command = subcommands[word]
    return None


def test_every_command_of_the_pages_exists() -> None:
    listed = list(commands())

    assert len(listed) > 50
    assert [(place, words) for place, words in listed if flaw(words)] == []
    assert flaw(["refine", "user:ana", "--agents", "guide"]) == "--agents"
    assert flaw(["audit", "verfy"]) == "verfy"


def test_every_make_target_and_module_of_the_pages_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    code = "\n".join(each.code for each in snippets("sh", "console", "bash"))
    targets = set(re.findall(r"^make ([\w-]+)", code, re.MULTILINE))
    modules = set(re.findall(r"-m (mnemic[\w.]*|benchmarks[\w.]*)", code))

    assert {target for target in targets if f"\n{target}:" not in makefile} == set()
    files = {module: ROOT.joinpath(*module.split(".")) for module in modules}
    assert {name for name, path in files.items() if not (path.is_dir() or path.with_suffix(".py").is_file())} == set()


def test_every_block_of_json_can_be_read() -> None:
    for each in snippets("json"):
        for line in each.code.splitlines():
            json.loads(line)
