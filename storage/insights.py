"""Insights about users: recent messages, and the time of the last insights."""

from typing import NamedTuple
from uuid import UUID

from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("insights")


class KeptMessage(NamedTuple):
    """A message of a user that still has its words."""

    id: UUID
    author: str
    content: str


async def are_insights_due(tx: ScopedTransaction, key: str) -> bool:
    """Return whether there is something new about a user, and no insights were drawn in the last 24 hours."""
    ((is_due,),) = await tx.tuples(_SQL["are_insights_due"], {"key": key})
    return bool(is_due)


async def recent_messages(tx: ScopedTransaction, key: str, most: int) -> list[KeptMessage]:
    """Return the newest formed messages of a user that still have their words, the newest first."""
    return [KeptMessage(*row) for row in await tx.tuples(_SQL["recent_messages"], {"key": key, "most": most})]


async def note_insights(tx: ScopedTransaction, key: str) -> bool:
    """Record that insights were drawn now; return False if another run did so in the last 24 hours."""
    return bool(await tx.tuples(_SQL["note_insights"], {"key": key}))
