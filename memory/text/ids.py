"""Ids that rise in the order of their creation, so that memories that are otherwise equal have one order."""

import threading
import time
from secrets import randbits
from uuid import UUID

_lock = threading.Lock()
_last = 0


def rising_id() -> UUID:
    """Return a UUID of version 7: the time in 1/4096 ms, above that of any earlier id in this process."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() * 4096 // 1_000_000)
        moment = _last
    milliseconds, fraction = divmod(moment, 4096)
    return UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | randbits(62))
