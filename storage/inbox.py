"""Messages: observed, pending, settled, then kept as sources or emptied. The caller owns the transaction."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from uuid import UUID, uuid5

from psycopg.types.json import Jsonb

from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.formation import Inbox
from mnemic.state.identity import Identity
from mnemic.state.records import IndexedText, Message, Observed, attachment_id
from mnemic.state.times import offset_minutes, plausible_times
from mnemic.storage.transaction import ScopedTransaction, half_vectors, load_statements, serialization_failure

_SQL = load_statements("inbox")
#: Messages of one statement, and characters beyond which it takes no further one: to write and send a megabyte takes
#: the event loop 10 ms.
_PART, _PART_CHARS = 500, 1_000_000
#: Fields of `Inbox` that each row of the statement `pending` repeats.
_INBOX_FIGURES = ("pending", "quarantined", "session_messages", "idle")


async def observe(tx: ScopedTransaction, session_id: str, messages: Sequence[Message]) -> Observed:
    """Store the messages that the session does not have yet.

    Raises:
        ConcurrentChangeError: another person began a session of this id meanwhile; the transaction must not go on.
    """
    user_id = tx.identity.user_id
    people = {user_id, *tx.identity.members, *(message.user_id for message in messages)}
    entering = {"session_id": session_id, "user_id": user_id, "people": sorted(filter(None, people))}
    await tx.execute(_SQL["enter_session"], entering)
    messages = [_as_stored(message, tx) for message in messages]
    accepted = pending = 0
    for part in _parts(messages):
        rows = [_row(message) for message in part]
        values = {
            "session_id": session_id,
            "messages": json.dumps(rows, default=str),
            "identity": Jsonb(_host_fields(tx.identity)),
            "user_id": user_id,
        }
        ((new, pending, edited, is_admitted),) = await tx.tuples(_SQL["observe"], values)
        if not is_admitted:
            raise serialization_failure()
        accepted += new
        # of several under one id the first counts
        contents = {message.id: message.content for message in reversed(part)}
        for message_id in edited:
            edit = {"id": message_id, "content": contents[message_id], "submitted_by": tx.identity.actor}
            await tx.execute(_SQL["edit"], {"session_id": session_id, **edit})
    return Observed(accepted=accepted, pending=pending)


def _as_stored(message: Message, tx: ScopedTransaction) -> Message:
    """Return the message with an id of its own if the session is stored under another id."""
    stored = tx.stored_session_id
    if stored is None or stored == message.session_id:
        return message
    parent = uuid5(message.attached_to, stored) if message.attached_to else None
    own_id = attachment_id(parent) if parent else uuid5(message.id, stored)
    return replace(message, id=own_id, session_id=stored, attached_to=parent)


def _row(message: Message) -> dict[str, object]:
    offset = offset_minutes(message.said_at)
    return {**vars(message), "scope_key": message.scope_key, "utc_offset": offset}


def _host_fields(identity: Identity) -> dict[str, object]:
    """Return what a job needs of the identity to form the session; agent and session are keys of the row."""
    return identity.model_dump(include={"user_id", "group_ids", "members", "teaches_agent", "role", "timezone"})


def _parts(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """One at least, for the answer tells what is pending."""
    part: list[Message] = []
    chars = 0
    for message in messages:
        if len(part) == _PART or chars > _PART_CHARS:
            yield part
            part, chars = [], 0
        part.append(message)
        chars += len(message.content)
    yield part


async def read_inbox(
    tx: ScopedTransaction, session_id: str, *, limit: int, quarantined: bool = False, skip: int = 0
) -> Inbox:
    """The oldest pending messages of a session, at most `limit`: of those that were set aside, or of all others.

    Their times are the believed ones; the rows, and what a search finds, keep those that were given.

    Args:
        skip: so many of them are passed over, and counted from the oldest again beyond the last.
    """
    values = {"session_id": session_id, "most": limit, "quarantined": quarantined, "skip": skip}
    rows = await tx.rows(dict, _SQL["pending"], values)
    figures = [{name: row.pop(name) for name in _INBOX_FIGURES} for row in rows]  # the same in each row
    rows = [row for row in rows if row["id"]]
    times = plausible_times((row["said_at"], row.pop("observed_at")) for row in rows)
    messages = []
    for row, time in zip(rows, times, strict=True):
        row["said_at"] = time.astimezone(row["said_at"].tzinfo)  # a time that replaces it is shown at its offset too
        messages.append(Message(**row))
    return Inbox(messages=tuple(messages), **figures[0])


async def quarantine(tx: ScopedTransaction, message_ids: Sequence[UUID]) -> None:
    """Leaves messages that no usable answer could be had for to a retry; they stay pending."""
    await tx.execute(_SQL["quarantine"], {"ids": sorted(message_ids)})


async def settle(tx: ScopedTransaction, op_id: UUID, messages: Sequence[Message], *, read_revision: int) -> None:
    """Marks messages as formed by this operation.

    Args:
        messages: as the run has read them.
        read_revision: how far the agent's history had come before the run read anything.

    Raises:
        ConcurrentChangeError: another run has formed some of them, their speaker has edited one, or a memory that this
            run may have read was erased meanwhile; the transaction must not go on.
    """
    read = {message.id: message.content for message in sorted(messages, key=lambda message: message.id)}
    digests = [sha256(content.encode()).digest() for content in read.values()]
    values = {"op_id": op_id, "ids": list(read), "digests": digests, "read_revision": read_revision}
    if len(await tx.tuples(_SQL["settle"], values)) != len(read):
        raise ConcurrentChangeError(
            "these messages were formed by another run or edited, or a memory was erased meanwhile; nothing was written"
        )


async def schedule_forgetting(tx: ScopedTransaction, message_ids: Iterable[UUID], after: timedelta) -> None:
    """Lets the words of messages go so long after now, which `forget_due` does."""
    await tx.execute(_SQL["schedule_forgetting"], {"ids": sorted(message_ids), "after": after})


async def forget_due(tx: ScopedTransaction) -> int:
    """Takes the words of the agent's messages whose time has come, the oldest of them; of how many."""
    ((gone,),) = await tx.call_with_head("forget_messages", _PART)
    return int(gone)


async def list_messages(tx: ScopedTransaction, session_id: str | None, *, limit: int) -> list[Message]:
    """Return the messages of the visible scope keys that still have their words, newest first."""
    values = {"session_id": await tx.find_session(session_id), "most": limit}
    return await tx.rows(Message, _SQL["list_messages"], values, for_host=True)


async def count_messages(tx: ScopedTransaction, session_id: str | None) -> int:
    """Return how many messages of the visible scope keys still have their words."""
    session_id = await tx.find_session(session_id)
    ((count,),) = await tx.tuples(_SQL["count_messages"], {"session_id": session_id})
    return int(count)


async def index_messages(tx: ScopedTransaction, model: str, texts: Sequence[IndexedText]) -> None:
    """Makes kept messages searchable, piece by piece."""
    values = {
        "model": model,
        "ids": [text.item_id for text in texts],
        "pieces": [text.piece for text in texts],
        "texts": [text.text for text in texts],
        "vectors": half_vectors(text.vector for text in texts),
    }
    await tx.execute(_SQL["index_messages"], values)
