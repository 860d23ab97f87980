"""The server process of one data directory: found, started, awaited and stopped; and the locks that tell who lives.

The kernel drops a lock when its holder ends, however it ends: there is no list of users that could go stale.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.storage.embedded import sockets
from mnemic.storage.embedded.binaries import Account

_START_SECONDS = 900  # crash recovery replays the log first; minutes have been seen elsewhere
_SILENT_SECONDS = 60  # how long processes may linger without a socket; orphans of a killed server end within 1 s
_STOP_SECONDS = 300  # a shutdown writes everything out: 65 s have been seen with 23,000 changed files
_POLL_SECONDS = 0.02
_LOG_BYTES = 10_000_000  # beyond that the log is put aside at the next start, and the one before is dropped

#: Settings that make the server private, so that nobody else may set them.
RESERVED_SETTINGS = frozenset({"listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions"})


def _open_lock(path: Path) -> int:
    """Never through a link; the descriptor is not inherited by programs that are started."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock for the block; wait for it before."""
    descriptor = _open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_exclusive(path: Path) -> int | None:
    """A descriptor that holds the lock until it and all its inherited copies are closed, or None if others hold it."""
    descriptor = _open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class SharedUse:
    """This process's share in something that many processes use; the last one to leave may put out the light.

    A forked child has no share until it takes one itself. `take` and `leave` need an exclusive lock around them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._holder = 0

    @property
    def held(self) -> bool:
        return self._descriptor is not None and self._holder == os.getpid()

    def take(self) -> None:
        if self.held:
            return
        if self._descriptor is not None:  # a fork's inherited descriptor would keep the parent's share alive
            os.close(self._descriptor)
        self._descriptor = _open_lock(self._path)
        self._holder = os.getpid()
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Gives the share up; whether nobody else has one now."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True


@dataclass(frozen=True, slots=True)
class PidFile:
    """What a server has noted in postmaster.pid. It may be a dead one's: the number can belong to anybody by now."""

    pid: int
    socket_dir: Path | None
    ready: bool

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
    """Handle on the server of `base`, whichever process has started it. Callers hold the control lock.

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
            if noted and sockets.is_listening(noted.socket_dir):
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
            f"{self._logged_since(0)}"
        )

    def boot(self, binaries: Path, account: Account, socket_dir: Path, settings: Mapping[str, str]) -> None:
        """Start the server and wait until it is ready."""
        self.let_go()  # of one that was killed
        descriptor = try_exclusive(self._lock)
        if descriptor is None:
            raise EmbeddedPostgresError(f"Processes of an earlier server hold {self._lock}: start again in a moment.")
        try:
            if self._log.exists() and self._log.stat().st_size > _LOG_BYTES:
                self._log.replace(self._log.with_suffix(".log.1"))
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
            raise EmbeddedPostgresError(f"PostgreSQL did not start; its log says:\n{self._logged_since(log_start)}")

    def _spawn(self, argv: list[str], account: Account, lock: int) -> subprocess.Popen[bytes]:
        options = account.process_options
        if noted := PidFile.read(self.data):
            # Nothing of that server is left, as the lock says. Postgres takes the number in this variable for its own
            # and so ignores it in the lock file, which need not be deleted; a server that lives all the same is still
            # noticed by its shared memory.
            options["env"]["PG_GRANDPARENT_PID"] = str(noted.pid)
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            # Ctrl-C in the starter's terminal is not meant for the other users' server, hence the new session
            return subprocess.Popen(  # noqa: S603 - our own argument list, no shell
                argv, stdout=log, stderr=log, pass_fds=(lock,), start_new_session=True, **options
            )
        finally:
            os.close(log)

    def stop(self) -> bool:
        """Stop the server; True when nothing of it is left. A slow shutdown is no error, it ends by itself."""
        noted = PidFile.read(self.data)
        if noted and noted.socket_dir and sockets.listener(noted.socket_dir) in (noted.pid, 0):
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
        descriptor = try_exclusive(self._lock)
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    def _logged_since(self, start: int) -> str:
        return self._log.read_bytes()[start:][-2000:].decode(errors="replace").strip()


def _arguments(binaries: Path, data: Path, socket_dir: Path, settings: Mapping[str, str]) -> list[str]:
    quoted = str(socket_dir).replace('"', '""')
    options = {
        "logging_collector": "off",
        **settings,
        "listen_addresses": "",
        "port": str(sockets.PORT),
        "unix_socket_directories": f'"{quoted}"',
        "unix_socket_permissions": "0700",
    }
    return [str(binaries / "postgres"), "-D", str(data), *(f"--{name}={value}" for name, value in options.items())]
