"""An installation of Mnemic, editable or not: type checkers resolve it, and it has one top-level name."""

import site
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.snippets import write_programs
from tests.support.wheel import ROOMS, copy_checkout

pytestmark = pytest.mark.thorough

#: Prints the file of a module of a room, and the top-level names that do not belong to an installed package.
LOOK = """
import importlib.util, mnemic.service.memory, sys
print(mnemic.service.memory.__file__)
print([name for name in sys.argv[1:] if importlib.util.find_spec(name)])
"""


@dataclass(frozen=True)
class Installation:
    """A new environment with Mnemic, and the folder of a user's programs."""

    python: Path
    checkout: Path
    folder: Path
    is_editable: bool

    def run(self, *words: str) -> str:
        command = [str(self.python), *words]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", params=[True, False], ids=["editable", "plain"])
def installation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Installed by pip without network: other packages are those of this environment, which the new one reads."""
    work = tmp_path_factory.mktemp("installation")
    checkout, environment = copy_checkout(work), work / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    others = [path for path in sys.path if Path(path).name == "site-packages"] or site.getsitepackages()
    (packages / "others.pth").write_text("\n".join(others), encoding="utf-8")
    python = environment / "bin" / "python"
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    source = ["-e", str(checkout)] if request.param else [str(checkout)]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, *source]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    folder = work / "programs"
    folder.mkdir()
    return Installation(python, checkout, folder, request.param)


def test_one_name_is_importable_and_files_are_those_of_the_checkout(installation: Installation) -> None:
    names = [*ROOMS.values(), "tests", "benchmarks", "docs"]
    file, others = installation.run("-c", LOOK, *names).splitlines()

    assert others == "[]"
    assert Path(file).is_relative_to(installation.checkout) == installation.is_editable
    if installation.is_editable:  # the path of a breakpoint, and not one below src/
        assert file == str(installation.checkout / "service" / "memory.py")
        (installation.checkout / "state" / "added.py").write_text("", encoding="utf-8")
        installation.run("-c", "import mnemic.state.added")


def errors(installation: Installation, *checker: str) -> list[str]:
    """Return the errors that a checker finds in the README's programs, and in the first one with a mistake."""
    every = write_programs(installation.folder)
    programs = [name for name, each in every.items() if each.place.startswith("README.md")]
    first = (installation.folder / programs[0]).read_text(encoding="utf-8")
    (installation.folder / "mistaken.py").write_text(first.replace("memory.recall(", "memory.recal("), encoding="utf-8")
    command = [sys.executable, "-m", *checker, *programs, "mistaken.py"]
    ran = subprocess.run(command, cwd=installation.folder, check=False, capture_output=True, text=True, timeout=600)
    return [line for line in ran.stdout.splitlines() if " error: " in line]


def test_mypy_finds_the_types(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = tmp_path_factory.getbasetemp() / "mypy"  # both installations have the same other packages
    own = ["--python-executable", str(installation.python), "--cache-dir", str(cache)]
    (error,) = errors(installation, "mypy", "--strict", *own)

    assert error.startswith("mistaken.py:")
    assert 'has no attribute "recal"' in error


def test_basedpyright_finds_the_types(installation: Installation) -> None:
    pytest.importorskip("basedpyright", reason="not installed")
    own = ["--pythonpath", str(installation.python), "--level", "error"]
    named, *follow = errors(installation, "basedpyright", *own)

    assert 'Cannot access attribute "recal"' in named
    assert [error for error in [named, *follow] if "mistaken.py:" not in error] == []
