"""The house: the folders with code, the links in mnemic/, and what an installation has of them."""

import re
import tarfile
import zipfile
from pathlib import Path

from tests.support.wheel import ROOMS, ROOT, build_sdist, build_wheel


def files_of(room: str) -> list[Path]:
    """What the room holds, relative to the checkout, without what Python leaves behind."""
    found = (path.relative_to(ROOT) for path in (ROOT / room).rglob("*"))
    return [path for path in found if (ROOT / path).is_file() and "__pycache__" not in path.parts]


def test_every_room_is_a_folder_with_the_name_of_its_package() -> None:
    assert {package: f"mnemic.{folder}" for package, folder in ROOMS.items()} == {package: package for package in ROOMS}
    assert all((ROOT / folder / "__init__.py").is_file() for folder in ROOMS.values())


def test_every_room_is_linked_in_the_package_and_nothing_else_is() -> None:
    entries = {path.name: path for path in (ROOT / "mnemic").iterdir() if path.name != "__pycache__"}
    links = {name: path for name, path in entries.items() if path.is_symlink()}

    assert {name: str(path.readlink()) for name, path in links.items()} == {
        folder: f"../{folder}" for folder in ROOMS.values()
    }
    assert set(entries) - set(links) == {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}


def test_every_folder_with_code_is_a_package() -> None:
    code = [path for folder in ROOMS.values() for path in files_of(folder) if path.suffix == ".py"]

    assert code
    assert [path for path in code if not (ROOT / path.parent / "__init__.py").is_file()] == []


def test_the_folder_of_an_editable_installation_holds_one_package_only() -> None:
    held = {path.name for path in (ROOT / "src").iterdir() if path.suffix != ".egg-info"}

    assert held == {"mnemic"}
    assert str((ROOT / "src" / "mnemic").readlink()) == "../mnemic"


def shipped_files() -> set[str]:
    return {
        "mnemic/__init__.py",
        "mnemic/__init__.pyi",
        "mnemic/__main__.py",
        "mnemic/py.typed",
        *(f"mnemic/{path.as_posix()}" for folder in ROOMS.values() for path in files_of(folder)),
    }


def test_a_wheel_holds_every_file_of_the_rooms_and_one_package_only(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert {name.partition("/")[0] for name in held} == {"mnemic"}
    assert held == shipped_files()


def test_a_source_distribution_holds_every_file_of_the_rooms(tmp_path: Path) -> None:
    with tarfile.open(build_sdist(tmp_path)) as archive:
        held = {member.name.partition("/src/")[2] for member in archive.getmembers() if member.isfile()}

    assert shipped_files() <= held


def test_every_test_that_a_page_names_is_there() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    named = {path for page in pages for path in re.findall(r"\btests/[\w/]+\.py\b", page.read_text(encoding="utf-8"))}

    assert named
    assert {path for path in named if not (ROOT / path).is_file()} == set()
