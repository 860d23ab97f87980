"""Threads of agents, as whoever they belong to sees them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class ThreadStatus:
    """Where a thread stands; nothing of what was said in it."""

    thread_id: str
    #: The latest one.
    checkpoint_id: str
    #: -1 for the input of a thread that has just begun.
    step: int | None
    #: What made the checkpoint: `input`, `loop`, `update`, `fork`.
    source: str | None
    #: The nodes that come next; none where the thread waits for its user.
    next: list[str]
    created_at: datetime
    updated_at: datetime
