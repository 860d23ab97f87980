"""The server process of one data directory: found, started, awaited and stopped; its locks and its private socket.

The kernel drops a lock when its holder ends, however it ends: there is no list of users that could go stale.
"""

import fcntl
import hashlib
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.state.files import open_private
from mnemic.storage.embedded.binaries import ServerAccount

#: Only names the socket file: the server has no TCP port.
PORT = 5432

_START_SECONDS = 900  # crash recovery replays the log first; minutes have been seen elsewhere
_SILENT_SECONDS = 60  # how long processes may linger without a socket; orphans of a killed server end within 1 s
_STOP_SECONDS = 300  # a shutdown writes everything out: 65 s have been seen with 23,000 changed files
_POLL_SECONDS = 0.02
_PROBE_SECONDS = 5
_LOG_BYTES = 10_000_000  # beyond that the log is put aside at the next start, and the one before is dropped
_SOCKET_NAME = f".s.PGSQL.{PORT}"
_MAX_PATH_LENGTH = 103  # bytes of a socket's path; macOS has room for 104 with the final zero, Linux for 108


def open_unlinked(path: Path) -> int:
    """Open a lock or a log at its end, never through a link, which another account could have made."""
    return open_private(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)


@contextmanager
def exclusive(path: Path) -> Iterator[int]:
    """Hold the lock for the block, and longer where a process inherits the descriptor; wait for it before."""
    descriptor = open_unlinked(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def close_last(descriptor: int) -> bool:
    """Close a descriptor of a lock; return whether no other process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


class _PidFile(NamedTuple):
    """Content of postmaster.pid. The server may be dead, and its number may belong to any other process."""

    pid: int
    socket_dir: Path | None
    ready: bool


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
        #: The server that this process has started; another one may be its last user.
        self._child: int | None = None

    def noted(self) -> _PidFile | None:
        """Return the content of postmaster.pid; None if there is no file or it is incomplete."""
        try:
            written = (self.data / "postmaster.pid").read_text(errors="replace").split("\n")
            lines = [*written, *[""] * 8]  # of a server that starts, the last ones are still to come
            return _PidFile(int(lines[0]), Path(lines[4]) if lines[4] else None, ready=lines[7].strip() == "ready")
        except (OSError, ValueError):
            return None

    def await_ready(self) -> Path | None:
        """Wait for a server that starts or stops; return its socket directory once it is ready, else None."""
        begun = heard = time.monotonic()
        while (now := time.monotonic()) < begun + _START_SECONDS:
            noted = self.noted()
            if noted and is_listening(noted.socket_dir):
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

    def boot(self, binaries: Path, account: ServerAccount, socket_dir: Path, settings: Mapping[str, str]) -> None:
        """Start the server and wait until it is ready."""
        if self._log.exists() and self._log.stat().st_size > _LOG_BYTES:
            self._log.replace(self._log.with_suffix(".log.1"))
        with os.fdopen(open_unlinked(self._log), "ab") as log:
            log_start = log.tell()
            options = {
                "logging_collector": "off",
                **settings,
                "listen_addresses": "",  # the options from here on keep it private, so they override the settings
                "port": str(PORT),
                "unix_socket_directories": '"{}"'.format(str(socket_dir).replace('"', '""')),
                "unix_socket_permissions": "0700",
            }
            argv = [str(binaries / "postgres"), "-D", str(self.data)]
            argv += [f"--{name}={value}" for name, value in options.items()]
            self._child = self._spawn(argv, account, log.fileno())
        try:
            ready = self.await_ready()
        except KeyboardInterrupt:
            os.kill(self._child, signal.SIGINT)
            raise
        if ready is None:
            self._reap()
            raise EmbeddedPostgresError(f"PostgreSQL did not start; its log says:\n{self._logged_since(log_start)}")

    def _spawn(self, argv: list[str], account: ServerAccount, log: int) -> int:
        self._reap()  # one that was killed
        options = account.process_options
        if noted := self.noted():
            # The lock is free, so nothing of that server is left. Postgres takes the number in this variable for its
            # own and ignores it in the lock file, which need not be deleted. A live server is noticed
            # by its shared memory.
            options["env"]["PG_GRANDPARENT_PID"] = str(noted.pid)
        with exclusive(self._lock) as lock:
            # Ctrl-C in the starter's terminal is not meant for the other users' server, hence the new session
            child = subprocess.Popen(  # noqa: S603 - our own argument list, no shell
                argv, stdout=log, stderr=log, pass_fds=(lock,), start_new_session=True, **options
            )
        child.returncode = 0  # it may outlive this process, and Python would complain of a forgotten child
        return child.pid

    def _reap(self) -> None:
        """Reap a server of this process that has ended."""
        if self._child and self._is_gone():
            with suppress(ChildProcessError):  # a fork has its parent's number
                os.waitpid(self._child, 0)  # its files are closed already, so this is a matter of milliseconds
            self._child = None

    def stop(self) -> bool:
        """Stop the server; return whether nothing of it is left. A slow shutdown is no error and ends by itself."""
        noted = self.noted()
        if noted and noted.socket_dir and _listener(noted.socket_dir) in (noted.pid, 0):
            with suppress(ProcessLookupError):
                os.kill(noted.pid, signal.SIGINT)  # a "fast" shutdown: ends connections, keeps all that was committed
            deadline = time.monotonic() + _STOP_SECONDS
            while not self._is_gone() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        is_gone = self._is_gone()
        self._reap()
        return is_gone

    def _is_gone(self) -> bool:
        return close_last(open_unlinked(self._lock))

    def _logged_since(self, start: int) -> str:
        return self._log.read_bytes()[start:][-2000:].decode(errors="replace").strip()


def private_socket_dir(base: Path, account: ServerAccount) -> Path:
    """Return a directory for the socket that only the account can enter: the socket admits every process.

    It lies in `base`, or in the temporary directory where the path cannot be a socket's.
    """
    name = f"mnemic-{account.uid}-{hashlib.sha256(os.fsencode(base)).hexdigest()[:12]}"
    candidates = (base / "s", Path(tempfile.gettempdir(), name), Path("/tmp", name))  # noqa: S108 - checked below
    for directory in candidates:
        path = os.fsencode(directory / _SOCKET_NAME)
        if len(path) > _MAX_PATH_LENGTH or b"," in path or b"\n" in path:  # libpq parts hosts at a comma
            continue
        if not account.closed_on_the_way(directory):
            break
    else:
        raise EmbeddedPostgresError(
            f"Neither {base} nor TMPDIR can hold the server's socket ({_MAX_PATH_LENGTH} bytes at most, no comma): set "
            "a shorter data directory (MNEMIC_DATA_DIR)."
        )
    with suppress(FileExistsError):
        directory.mkdir(0o700)
        os.chown(directory, account.uid, account.gid)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid or stat.S_IMODE(status.st_mode) & 0o077:
        raise EmbeddedPostgresError(
            f"{directory} has to be a directory that belongs to user {account.name} with mode 0700: remove it."
        )
    return directory


def is_listening(directory: Path | None) -> bool:
    """Return whether a server accepts connections there; no stale file can imitate that."""
    return directory is not None and _listener(directory) is not None


def _listener(directory: Path) -> int | None:
    """Return the number of the listening process as seen from this one, or None.

    A server in another container may share the directory, while its number means another process here: -1 is the
    number of an invisible process. It is 0 on macOS, which reports no number and has no containers.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(str(directory / _SOCKET_NAME))
        except OSError:
            return None
        if sys.platform != "linux":
            return 0
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        pid: int = struct.unpack("iII", credentials)[0]
        return pid or -1
