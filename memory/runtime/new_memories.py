"""New memories and their ids, which rise in the order of creation so that otherwise equal memories have one order."""

import threading
import time
from datetime import datetime
from secrets import randbits
from uuid import UUID

from mnemic.memory.text.shape import search_text
from mnemic.state.identity import display_name, split_scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import NewMemory

_lock = threading.Lock()
_last_tick = 0
#: Ticks of the clock per millisecond: a UUID of version 7 has 12 bits for a fraction of it.
_TICKS_PER_MILLISECOND = 4096
_NANOSECONDS_PER_MILLISECOND = 1_000_000


def rising_id() -> UUID:
    """Return a UUID of version 7 that is above any earlier id of this process."""
    global _last_tick  # noqa: PLW0603 - one counter for the process, under the lock
    with _lock:
        now = time.time_ns() * _TICKS_PER_MILLISECOND // _NANOSECONDS_PER_MILLISECOND
        _last_tick = max(_last_tick + 1, now)
        tick = _last_tick
    milliseconds, fraction = divmod(tick, _TICKS_PER_MILLISECOND)
    return UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | randbits(62))


def new_memory(  # noqa: PLR0913 - a memory has these fields
    kind: Kind, category: str, key: str, content: str, dated: datetime, subject: str = ""
) -> NewMemory:
    """Return a memory with a new id, valid from a date; without a subject it is about the owner of its scope key."""
    subject = subject or display_name(split_scope_key(key)[1])
    return NewMemory(
        id=rising_id(),
        kind=kind,
        scope_key=key,
        category=category,
        content=content,
        search_text=search_text(dated, subject, content),
        subject=subject,
        valid_from=dated,
    )
