"""The wheel that a user would install, built from a copy, so that nothing is left in the checkout."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SETUPTOOLS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
#: Folder of the checkout by the package that it is.
ROOMS: dict[str, str] = {
    package: folder for package, folder in SETUPTOOLS["package-dir"].items() if package != "mnemic"
}


def build_wheel(into: Path) -> Path:
    """The wheel, made in `into` and with what is installed: nothing is fetched."""
    pytest.importorskip("setuptools", minversion="77", reason="building needs what pip would fetch for it")
    checkout = into / "checkout"
    checkout.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name in ("mnemic", *ROOMS.values()):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=checkout, check=True, capture_output=True, timeout=120)
    (wheel,) = checkout.glob("*.whl")
    return wheel
