"""The server's Unix socket: its private directory, and who listens there."""

import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from mnemic.state.errors import EmbeddedPostgresError
from mnemic.storage.embedded.binaries import Account

#: Only names the socket file: the server has no TCP port.
PORT = 5432

_SOCKET_NAME = f".s.PGSQL.{PORT}"
_LONGEST_PATH = 103  # bytes of a socket's path; macOS has room for 104 with the final zero, Linux for 108
_PROBE_SECONDS = 5


def private_socket_dir(base: Path, account: Account) -> Path:
    """A directory for the socket that only the account can enter: whoever reaches the socket is let in.

    It lies in `base`, or in the temporary directory where the path cannot be a socket's.
    """
    name = f"mnemic-{account.uid}-{hashlib.sha256(os.fsencode(base)).hexdigest()[:12]}"
    candidates = (base / "s", Path(tempfile.gettempdir(), name), Path("/tmp", name))  # noqa: S108 - checked below
    for directory in candidates:
        path = os.fsencode(directory / _SOCKET_NAME)
        if len(path) > _LONGEST_PATH or b"," in path or b"\n" in path:  # libpq parts hosts at a comma
            continue
        if not account.closed_on_the_way(directory):
            _make_private(directory, account)
            return directory
    raise EmbeddedPostgresError(
        f"Neither {base} nor TMPDIR can hold the server's socket (at most {_LONGEST_PATH} bytes, no comma): choose a "
        "shorter data directory (MNEMIC_DATA_DIR)."
    )


def _make_private(directory: Path, account: Account) -> None:
    with suppress(FileExistsError):
        directory.mkdir(0o700)
        account.give(directory)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid or stat.S_IMODE(status.st_mode) & 0o077:
        raise EmbeddedPostgresError(
            f"{directory} has to be a directory that belongs to user {account.name} with mode 0700: remove it."
        )


def is_listening(directory: Path | None) -> bool:
    """Whether a server accepts connections there: the one proof of life that no stale file can fake."""
    return directory is not None and listener(directory) is not None


def listener(directory: Path) -> int | None:
    """The listening process's number as seen from here, or None.

    A server in another container may share the directory, while its number means another process here: -1 stands for
    one that cannot be seen. It is 0 where the system does not tell (macOS, which has no containers to mistake).
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
