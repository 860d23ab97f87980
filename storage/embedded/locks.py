"""Locks that the kernel drops when their holder ends, however it ends: no list of users that could go stale."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_lock(path: Path) -> int:
    """Open a lock file, never through a link; the descriptor is not inherited by programs that are started."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock for the block; wait for it before."""
    descriptor = open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_exclusive(path: Path) -> int | None:
    """A descriptor that holds the lock until it and all its inherited copies are closed, or None if others hold it."""
    descriptor = open_lock(path)
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
        self.close()  # a fork's inherited descriptor would keep the parent's share alive
        self._descriptor = open_lock(self._path)
        self._holder = os.getpid()
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def is_last(self) -> bool:
        """Whether nobody else has a share now; answering may cost the own share, so `close` it afterwards."""
        if self._descriptor is None:
            return False
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
