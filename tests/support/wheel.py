"""The wheel that a user would install, built from a copy, so that nothing is left in the checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Folder of the checkout by the package that it is, from the links in `mnemic/`.
ROOMS: dict[str, str] = {
    f"mnemic.{path.name}": path.resolve().name for path in sorted((ROOT / "mnemic").iterdir()) if path.is_symlink()
}


def copy_checkout(into: Path) -> Path:
    """Copy what an installation reads, so that it leaves nothing in this checkout."""
    checkout = into / "checkout"
    checkout.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name in ("src", "mnemic", *ROOMS.values()):
        leftovers = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=leftovers)
    return checkout


def build_wheel(into: Path) -> Path:
    """The wheel, made in `into` and with what is installed: nothing is fetched."""
    return _build(into, "wheel")


def build_sdist(into: Path) -> Path:
    """The source distribution, made the same way."""
    return _build(into, "sdist")


def _build(into: Path, kind: str) -> Path:
    pytest.importorskip("setuptools", minversion="77", reason="building needs what pip would fetch for it")
    checkout = copy_checkout(into)
    build = f"from setuptools import build_meta; print(build_meta.build_{kind}('.'))"
    command = [sys.executable, "-c", build]
    built = subprocess.run(command, cwd=checkout, check=True, capture_output=True, timeout=120, text=True)
    return checkout / built.stdout.splitlines()[-1]
