"""The server process of one data directory: found, started, awaited and stopped. Callers hold the control lock."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.storage.embedded import locks, sockets
from mnemic.storage.embedded.account import Account, server_environment

_START_SECONDS = 900  # crash recovery replays the log first; minutes have been seen elsewhere
_SILENT_SECONDS = 60  # how long processes may linger without a socket; orphans of a killed server end within 1 s
_STOP_SECONDS = 300  # a shutdown writes everything out: 65 s have been seen with 23,000 changed files
_POLL_SECONDS = 0.02
_LOG_BYTES = 10_000_000  # beyond that the log is put aside at the next start, and the one before is dropped

#: Settings that make the server private, so that nobody else may set them.
RESERVED_SETTINGS = frozenset({"listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions"})


@dataclass(frozen=True, slots=True)
class PidFile:
    """What a server has noted in postmaster.pid. It may be a dead one's: the number can belong to anybody by now."""

    pid: int
    socket_dir: Path | None
    ready: bool

    def listens(self) -> bool:
        return self.socket_dir is not None and sockets.is_listening(self.socket_dir)

    @classmethod
    def read(cls, data: Path) -> "PidFile | None":
        """None when there is no file or it is not complete yet."""
        try:
            lines = (data / "postmaster.pid").read_text(errors="replace").split("\n")
            pid = int(lines[0])
        except (OSError, ValueError):
            return None
        socket_dir = Path(lines[4]) if len(lines) > 4 and lines[4] else None
        return cls(pid, socket_dir, ready=len(lines) > 7 and lines[7].strip() == "ready")


class Postmaster:
    """Handle on the server of `base`, whichever process has started it.

    The server inherits a locked descriptor of `server.lock`, and so do all its processes. While any of them lives,
    the lock is held; once it is free, nothing of the server is left, and a number in postmaster.pid means nothing.
    That holds for zombies, for numbers used again after a reboot, and across containers.
    """

    def __init__(self, base: Path) -> None:
        self.data = base / "data"
        self._lock = base / "server.lock"
        self._log = base / "server.log"
        self._child: subprocess.Popen[bytes] | None = None

    def await_ready(self) -> Path | None:
        """Wait for a server that starts or stops; its socket directory when it is ready, None when there is none."""
        begun = heard = time.monotonic()
        while (now := time.monotonic()) < begun + _START_SECONDS:
            noted = PidFile.read(self.data)
            if noted and noted.listens():
                heard = now
                if noted.ready:
                    return noted.socket_dir
            elif self._is_gone():
                return None
            elif now > heard + _SILENT_SECONDS:
                raise EmbeddedPostgresError(
                    f"Processes of an earlier server hold {self._lock}, and none accepts connections: wait until they "
                    "have ended, or end them, and start again."
                )
            time.sleep(_POLL_SECONDS)
        raise EmbeddedPostgresError(
            f"PostgreSQL is still not ready after {_START_SECONDS} s. It goes on recovering: start again to wait.\n"
            f"{self._log_tail(0)}"
        )

    def boot(self, binaries: Path, account: Account, socket_dir: Path, settings: Mapping[str, str]) -> None:
        """Start the server and wait until it is ready."""
        self.let_go()  # of one that was killed
        descriptor = locks.try_exclusive(self._lock)
        if descriptor is None:
            raise EmbeddedPostgresError(f"Processes of an earlier server hold {self._lock}: start again in a moment.")
        try:
            self._rotate_log()
            log_start = self._log.stat().st_size if self._log.exists() else 0
            self._child = self._spawn(_arguments(binaries, self.data, socket_dir, settings), account, descriptor)
        except OSError as error:
            raise EmbeddedPostgresError(f"PostgreSQL cannot be run as user {account.name}: {error}") from error
        finally:
            os.close(descriptor)
        try:
            ready = self.await_ready()
        except KeyboardInterrupt:
            self._child.send_signal(signal.SIGINT)
            raise
        if ready is None:
            self._reap()
            raise EmbeddedPostgresError(f"PostgreSQL did not start; its log says:\n{self._log_tail(log_start)}")

    def _spawn(self, argv: list[str], account: Account, lock: int) -> subprocess.Popen[bytes]:
        environment = server_environment()
        if noted := PidFile.read(self.data):
            # Nothing of that server is left, as the lock says. Postgres takes the number in this variable for its own
            # and so ignores it in the lock file, which need not be deleted; a server that lives all the same is still
            # noticed by its shared memory.
            environment["PG_GRANDPARENT_PID"] = str(noted.pid)
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(  # noqa: S603 - our own argument list, no shell
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment,
                pass_fds=(lock,),
                start_new_session=True,  # Ctrl-C in the starter's terminal is not meant for the other users' server
                user=account.popen_user,
                group=account.popen_group,
                extra_groups=account.popen_extra_groups,
            )
        finally:
            os.close(log)

    def stop(self) -> bool:
        """Stop the server; True when nothing of it is left. A slow shutdown is no error, it ends by itself."""
        noted = PidFile.read(self.data)
        if noted and noted.socket_dir and sockets.is_listener(noted.pid, noted.socket_dir):
            with suppress(ProcessLookupError):
                os.kill(noted.pid, signal.SIGINT)  # a "fast" shutdown: ends connections, keeps all that was committed
            deadline = time.monotonic() + _STOP_SECONDS
            while not self._is_gone() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        gone = self._is_gone()
        if gone:
            self._reap()
        return gone

    def let_go(self) -> None:
        """Leave the server to its other users; without that, Python complains of a forgotten child process."""
        if self._child and self._child.poll() is None:
            self._child.returncode = 0
        self._child = None

    def _reap(self) -> None:
        if self._child:
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(5)  # its files are closed already, so this is a matter of milliseconds

    def _is_gone(self) -> bool:
        descriptor = locks.try_exclusive(self._lock)
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    def _rotate_log(self) -> None:
        if self._log.exists() and self._log.stat().st_size > _LOG_BYTES:
            self._log.replace(self._log.with_suffix(".log.1"))

    def _log_tail(self, start: int) -> str:
        """The end of what the server has logged since `start`."""
        with self._log.open("rb") as log:
            log.seek(max(start, self._log.stat().st_size - 2000))
            return log.read().decode(errors="replace").strip()


def _arguments(binaries: Path, data: Path, socket_dir: Path, settings: Mapping[str, str]) -> list[str]:
    quoted = str(socket_dir).replace('"', '""')
    private = {
        "listen_addresses": "",
        "port": str(sockets.PORT),
        "unix_socket_directories": f'"{quoted}"',
        "unix_socket_permissions": "0700",
    }
    options = {"logging_collector": "off", **settings, **private}
    return [str(binaries / "postgres"), "-D", str(data)] + [
        word for name, value in options.items() for word in ("-c", f"{name}={value}")
    ]
