"""The operating system account that the server's processes run under."""

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mnemic.state.errors import EmbeddedPostgresError

#: Accounts that root hands the server to, in this order: Postgres refuses to run as root. No account is ever created.
_UNPRIVILEGED = ("postgres", "nobody")

#: All that the server inherits of the environment. The rest stays out: PG* variables would change its behaviour, and
#: keys of model providers could be read from SQL through /proc.
_INHERITED = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_TOOL_SECONDS = 900  # initdb takes 1 to 4 s on a busy disk; only one that hangs gets near this


@dataclass(frozen=True, slots=True)
class Account:
    """Whom the server runs as; `switched` when this process is root and has to become that account first."""

    name: str
    uid: int
    gid: int
    switched: bool

    @property
    def popen_user(self) -> int | None:
        return self.uid if self.switched else None

    @property
    def popen_group(self) -> int | None:
        return self.gid if self.switched else None

    @property
    def popen_extra_groups(self) -> list[int] | None:
        return [] if self.switched else None  # none of root's groups

    def can_enter(self, directory: Path) -> bool:
        """Whether the directory's mode lets this account pass through it."""
        if not self.switched:
            return True  # the system call itself will tell
        status = directory.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        return bool(status.st_mode & (0o010 if status.st_gid == self.gid else 0o001))

    def closed_on_the_way(self, path: Path) -> Path | None:
        """The outermost directory above `path` that this account cannot enter."""
        return next((parent for parent in reversed(path.parents) if not self.can_enter(parent)), None)

    def give(self, path: Path) -> None:
        """Make a file or directory that this process has just created the account's own."""
        if self.switched:
            os.chown(path, self.uid, self.gid)

    def run(self, argv: Sequence[str | Path]) -> str:
        """Run one of the server's tools to its end and return what it printed."""
        tool = Path(argv[0]).name
        try:
            done = subprocess.run(  # noqa: S603 - our own argument list, no shell
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd="/",
                env=server_environment(),
                timeout=_TOOL_SECONDS,
                user=self.popen_user,
                group=self.popen_group,
                extra_groups=self.popen_extra_groups,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EmbeddedPostgresError(f"Postgres' {tool} cannot be run as user {self.name}: {error}") from error
        if done.returncode:
            output = done.stdout[-1500:].strip()
            raise EmbeddedPostgresError(f"Postgres' {tool} failed with exit code {done.returncode}:\n{output}")
        return done.stdout


def server_environment() -> dict[str, str]:
    """The few inherited variables, and messages in English, whatever the user's language."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | {"LC_ALL": "C"}


def server_account(data: Path) -> Account:
    """This process's own account; for root the owner of the existing data, else the first unprivileged one there is."""
    uid = os.geteuid()
    if uid != 0:
        return Account(_name_of(uid), uid, os.getegid(), switched=False)
    entries = [entry for name in _UNPRIVILEGED if (entry := _entry_of(name))]
    if data.exists() and (owner := data.stat().st_uid):
        entries = [entry for entry in (_entry_of(owner),) if entry]
    if not entries:
        raise EmbeddedPostgresError(
            "Postgres refuses to run as root, and there is no account to hand it to: create one with `useradd -r "
            "postgres`, start as an ordinary user, or set MNEMIC_DATABASE_URL to a Postgres server."
        )
    return Account(entries[0].pw_name, entries[0].pw_uid, entries[0].pw_gid, switched=True)


def _entry_of(account: str | int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(account) if isinstance(account, str) else pwd.getpwuid(account)
    except KeyError:
        return None


def _name_of(uid: int) -> str:
    if entry := _entry_of(uid):
        return entry.pw_name
    raise EmbeddedPostgresError(
        f"User id {uid} has no entry in the user database, which Postgres needs: add one to /etc/passwd (containers "
        "often run under a bare number), or set MNEMIC_DATABASE_URL to a Postgres server."
    )
