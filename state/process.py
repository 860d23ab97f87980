"""The process that opened a resource: connections and event loops cannot be used after a fork."""

import os

from mnemic.state.errors import ForkedProcessError


class OwnProcess:
    """The process in which this object was made."""

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in that process."""
        return self._id == os.getpid()

    def require(self) -> None:
        """Refuse a caller in another process.

        Raises:
            ForkedProcessError: if the caller runs in a fork of that process.
        """
        if not self.is_current:
            raise ForkedProcessError
