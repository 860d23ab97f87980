"""What happened to memories, for those who may see them."""

from uuid import UUID

from mnemic.state.records import HistoryEvent
from mnemic.storage.statements import load_statements
from mnemic.storage.transaction import Scoped

_SQL = load_statements("history")


async def of_memory(scoped: Scoped, memory_id: UUID) -> list[HistoryEvent]:
    """Every audited change of one memory, oldest first; empty for an unknown or foreign id."""
    return await scoped.rows(HistoryEvent, _SQL["of_memory"], {"memory_id": memory_id})


async def done_today(scoped: Scoped, *reasons: str) -> int:
    """Changes for these reasons since midnight (UTC) in the identity's session, or by its actor without one."""
    who = scoped.identity
    values = {"reasons": list(reasons), "session_id": who.session_id, "actor": who.actor}
    row = await (await scoped.execute(_SQL["done_today"], values)).fetchone()
    return int(row[0]) if row else 0
