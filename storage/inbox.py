"""Messages: observed, pending, settled, then kept as sources or emptied. The caller owns the transaction."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.records import Inbox, IndexedText, Message, Observed
from mnemic.storage.database import Scoped
from mnemic.storage.statements import load_statements
from mnemic.storage.vectors import half_vectors

_SQL = load_statements("inbox")


async def observe(scoped: Scoped, session_id: str, messages: Sequence[Message]) -> Observed:
    """Stores the messages the session does not have yet."""
    rows = [
        {
            "id": str(message.id),
            "scope_key": message.scope_key,
            "role": message.role,
            "author": message.author,
            "user_id": message.user_id,
            "content": message.content,
            "said_at": message.said_at.isoformat(),
        }
        for message in messages
    ]
    values = {"session_id": session_id, "messages": json.dumps(rows), "group_ids": list(scoped.identity.group_ids)}
    accepted = await _one(scoped, "observe", values)
    pending = await _one(scoped, "pending_count", {"session_id": session_id})
    return Observed(accepted=accepted, pending=pending)


async def read_inbox(scoped: Scoped, session_id: str, *, most: int) -> Inbox:
    """The oldest pending messages of a session, at most `most`."""
    messages = await scoped.rows(Message, _SQL["pending"], {"session_id": session_id, "most": most})
    pending = await _one(scoped, "pending_count", {"session_id": session_id})
    idle = await (await scoped.execute(_SQL["idle"], {"session_id": session_id})).fetchone()
    return Inbox(messages=tuple(messages), pending=pending, idle=idle[0] if idle else timedelta(0))


async def settle(scoped: Scoped, op_id: UUID, message_ids: Sequence[UUID]) -> None:
    """Marks messages as formed by this operation.

    Raises:
        ConcurrentChangeError: another run has formed some of them; the transaction must not go on.
    """
    cursor = await scoped.execute(_SQL["settle"], {"op_id": op_id, "ids": sorted(message_ids)})
    if len(await cursor.fetchall()) != len(set(message_ids)):
        raise ConcurrentChangeError("these messages were formed by another run; nothing was written")


async def forget_contents(scoped: Scoped, message_ids: Sequence[UUID]) -> None:
    """Empties messages that are not kept."""
    await scoped.execute(_SQL["forget_contents"], {"ids": sorted(message_ids)})


async def index_messages(scoped: Scoped, model: str, texts: Sequence[IndexedText]) -> None:
    """Makes kept messages searchable, piece by piece."""
    values = {
        "model": model,
        "ids": [text.item_id for text in texts],
        "pieces": [text.piece for text in texts],
        "texts": [text.text for text in texts],
        "vectors": half_vectors(text.vector for text in texts),
    }
    await scoped.execute(_SQL["index_messages"], values)


async def _one(scoped: Scoped, name: str, values: Mapping[str, object]) -> int:
    row = await (await scoped.execute(_SQL[name], values)).fetchone()
    return int(row[0]) if row else 0
