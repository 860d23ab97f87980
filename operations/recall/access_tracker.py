"""Which memories recalls returned: noted without I/O, written once the turn is over."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from typing import Final
from uuid import UUID

from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.storage import memories
from mnemic.storage.database import Database

_LOG = logging.getLogger("mnemic")
#: Memories of all sessions of a day that one process keeps in mind, some 20 MB; beyond, it begins anew.
MOST_NOTED: Final = 100_000
#: Sessions whose uses wait; so many are written without waiting for their next observe, which may never come.
MOST_WAITING: Final = 100


def _today() -> date:
    return datetime.now(UTC).date()


class AccessTracker:
    """The memories that were returned, each once per session, or user where there is none, and day.

    It lives in this process: what is lost with it is counts.
    """

    def __init__(self, *, today: Callable[[], date] = _today) -> None:
        self._today = today
        self._day = today()
        #: Agent, session or user, memory: what counted today.
        self._counted: set[tuple[str, str | None, UUID]] = set()
        #: What waits to be written, by who may see it.
        self._waiting: dict[tuple[str, ...], tuple[Identity, set[UUID]]] = {}

    def note(self, identity: Identity, memory_ids: Iterable[UUID]) -> bool:
        """Notes that a recall returned these memories to this identity; True where it is time to write."""
        self._begin_anew()
        place = identity.session_id or identity.user_id
        new = {(identity.agent_id, place, memory_id) for memory_id in memory_ids} - self._counted
        if new:
            self._counted |= new
            _, waiting = self._waiting.setdefault(identity.scope_keys, (identity, set()))
            waiting.update(memory_id for _, _, memory_id in new)
        return len(self._waiting) >= MOST_WAITING

    def taken(self, identity: Identity) -> set[UUID]:
        """What was noted for this identity since it was last taken."""
        _, waiting = self._waiting.pop(identity.scope_keys, (identity, set()))
        return waiting

    async def write(self, database: Database, identity: Identity) -> bool:
        """Counts what was noted for this identity, in a transaction of its own; False where that failed.

        A failure is logged and costs the counts alone.
        """
        taken = self.taken(identity)
        try:
            if taken:
                await database.write(identity, lambda scoped: memories.count_uses(scoped, taken))
        except MnemicError as error:
            _LOG.warning("uses of recalled memories were not counted (%d): %s", len(taken), error)
            return False
        return True

    async def write_all(self, database: Database) -> None:
        """Counts what is left; the first failure ends it, for the database is away then."""
        for identity, _ in list(self._waiting.values()):
            if not await self.write(database, identity):
                return

    def _begin_anew(self) -> None:
        if self._today() != self._day:
            self._day = self._today()
            self._counted.clear()
        if len(self._counted) >= MOST_NOTED:
            self._counted.clear()
        if sum(len(waiting) for _, waiting in self._waiting.values()) >= MOST_NOTED:
            self._waiting.clear()  # the database has been away for long
