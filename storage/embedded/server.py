"""One private Postgres server per directory, shared by all processes that start it and stopped by the last of them."""

import atexit
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.storage.embedded import binaries, cluster, locks, sockets
from mnemic.storage.embedded.account import Account, server_account
from mnemic.storage.embedded.postmaster import RESERVED_SETTINGS, PidFile, Postmaster

#: For servers whose data may be lost: no write waits for the disk. 20 times as many commits.
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


class EmbeddedPostgres:
    """A Postgres server in `base`, reached by a Unix socket alone.

    The first process that starts it makes the data directory and the server, later ones join, and the last one that
    stops or ends takes it down. A process that is killed counts as ended. If all are killed the server stays up
    (26 MiB) until the next user joins and leaves. A server that is killed is started again by the first `start` or
    `revive`. `settings` are server parameters; they count when this process is the one that starts the server. Without
    `durable` the server is quick, and a crash of the machine may cost the data.

    All calls block: use `asyncio.to_thread` in a coroutine. After a fork the child calls `start` for itself.
    """

    def __init__(self, base: Path, *, durable: bool = True, settings: Mapping[str, str] | None = None) -> None:
        self.base = base.expanduser().resolve()
        self.durable = durable
        self._settings = {**({} if durable else _NOT_DURABLE), **_recovery_settings(), **(settings or {})}
        if taken := RESERVED_SETTINGS & self._settings.keys():
            raise EmbeddedPostgresError(f"Remove {', '.join(sorted(taken))} from the settings: the server sets them.")
        self._use = locks.SharedUse(self.base / "users.lock")
        self._postmaster = Postmaster(self.base)
        self._socket_dir: Path | None = None

    def start(self) -> None:
        """Join the server or start it; return when it accepts work. A second call does no harm."""
        if self._use.held and self._socket_dir and sockets.is_listening(self._socket_dir):
            return
        try:
            account = server_account(self._postmaster.data)
            cluster.prepare_base(self.base, account)
            with locks.exclusive(self._control_lock), ExitStack() as undo:
                self._take_part()
                undo.callback(self._take_no_part)
                self._socket_dir = self._postmaster.await_ready() or self._boot(account)
                undo.pop_all()
        except OSError as error:
            raise EmbeddedPostgresError(
                f"The embedded Postgres server cannot use {self.base}: {error}. Choose another data directory "
                "(MNEMIC_DATA_DIR), or set MNEMIC_DATABASE_URL to a Postgres server."
            ) from error

    def revive(self) -> None:
        """Start the server again if it was killed; return when it accepts work. One that was shut down stays down.

        Raises:
            EmbeddedPostgresError: it was shut down, or does not start.
        """
        if self._socket_dir and sockets.is_listening(self._socket_dir):
            return
        try:
            with locks.exclusive(self._control_lock):
                if not self._use.held:
                    raise EmbeddedPostgresError("The embedded Postgres server is not in use here: call start() first.")
                self._socket_dir = self._postmaster.await_ready() or self._boot_again()
        except OSError as error:
            raise EmbeddedPostgresError(f"The embedded Postgres server cannot use {self.base}: {error}.") from error

    def stop(self) -> bool:
        """Leave the server; True when this was its last user and it is down now, False when it goes on."""
        if not self._use.held:
            return False
        if not self.base.exists():  # a server whose files are gone ends by itself within a minute
            self._take_no_part()
            return False
        with locks.exclusive(self._control_lock), ExitStack() as leaving:
            leaving.callback(self._take_no_part)
            if not self._use.is_last():
                return False
            stopped = self._postmaster.stop()
            if stopped and self._socket_dir and self._socket_dir.parent != self.base:
                with suppress(OSError):  # in the temporary directory; another one makes it again
                    self._socket_dir.rmdir()
            return stopped

    def dsn(self, user: str = "postgres", dbname: str = "postgres") -> str:
        """Connection string for libpq. There is no password: the socket's directory is open to its owner alone."""
        if self._socket_dir is None:
            raise EmbeddedPostgresError("The embedded Postgres server has not been started: call start() first.")
        parts = {"host": str(self._socket_dir), "port": str(sockets.PORT), "user": user, "dbname": dbname}
        return " ".join(f"{name}={_quoted(value)}" for name, value in parts.items())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _control_lock(self) -> Path:
        return self.base / "control.lock"

    def _take_part(self) -> None:
        self._use.take()
        atexit.unregister(self.stop)
        atexit.register(self.stop)

    def _take_no_part(self) -> None:
        atexit.unregister(self.stop)
        self._postmaster.let_go()
        self._use.close()
        self._socket_dir = None

    def _boot_again(self) -> Path:
        if PidFile.read(self._postmaster.data) is None:  # it takes the file away when it is told to stop
            raise EmbeddedPostgresError(
                "The embedded Postgres server was shut down by somebody: it starts with the next program that opens it."
            )
        return self._boot(server_account(self._postmaster.data))

    def _boot(self, account: Account) -> Path:
        programs = binaries.reachable_binaries(binaries.find_binaries(), self.base, account)
        major = binaries.major_version(programs, account)
        cluster.ensure_cluster(self._postmaster.data, programs, major, account, durable=self.durable)
        socket_dir = sockets.private_socket_dir(self.base, account)
        self._postmaster.boot(programs, account, socket_dir, self._settings)
        return socket_dir


def _recovery_settings() -> dict[str, str]:
    """After a crash, sync the file system at once and not file by file: 0.26 s where it took 3.6 s."""
    return {"recovery_init_sync_method": "syncfs"} if cluster.LINUX else {}


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
