"""Files with contents or credentials, which only their owner may read."""

import os
import stat
from pathlib import Path
from typing import Final

#: Mode that lets the owner alone read and write.
PRIVATE_MODE: Final = 0o600


def open_private(path: Path, flags: int = os.O_RDWR | os.O_APPEND) -> int:
    """Open a file, create it with mode 0600 if it is missing, and narrow the mode of an existing one to 0600.

    Args:
        path: path of the file. A link is not followed if the flags have O_NOFOLLOW.
        flags: flags of `os.open`; O_CREAT is added.

    Raises:
        OSError: if the file cannot be opened, or its mode is wider and belongs to another account.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        status = os.fstat(descriptor)
        # a device such as /dev/stdout or a pipe keeps its mode
        if stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) & ~PRIVATE_MODE:
            os.fchmod(descriptor, PRIVATE_MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def create_private(path: Path) -> int:
    """Create a new file with mode 0600, independent of the umask, and open it for writing.

    Raises:
        OSError: if the file exists or cannot be created.
    """
    return open_private(path, os.O_WRONLY | os.O_EXCL)
