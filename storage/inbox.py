"""Messages: observed, pending, formed, then kept as sources or emptied. The caller owns the transaction."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid5

from psycopg.types.json import Jsonb

from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.formation import Inbox
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity
from mnemic.state.records import IndexedText, Message, Observed, attachment_id
from mnemic.state.times import offset_minutes, plausible_times
from mnemic.storage.transaction import ScopedTransaction, half_vectors, load_statements, serialization_failure

_SQL = load_statements("inbox")
#: Maximum number of messages of one statement, and of characters before its last message: to write and send a megabyte
#: takes the event loop 10 ms.
_PART, _PART_CHARS = 500, 1_000_000
#: Fields of `Inbox` that each row of the statement `pending` repeats.
_INBOX_FIGURES = ("pending", "quarantined", "session_messages", "idle")


async def observe(tx: ScopedTransaction, session_id: str, messages: Sequence[Message]) -> Observed:
    """Store the messages that the session does not have yet.

    Raises:
        ConcurrentChangeError: if another user began a session of this id meanwhile; the transaction must end.
    """
    user_id = tx.identity.user_id
    people = {user_id, *tx.identity.members}
    for message in messages:
        people.add(message.user_id)
    people.discard(None)
    entering = {"session_id": session_id, "user_id": user_id, "people": sorted(map(str, people))}
    await tx.execute(_SQL["enter_session"], entering)
    accepted = pending = 0
    for part in _parts([_as_stored(message, tx) for message in messages]):
        values = {
            "session_id": session_id,
            "messages": json.dumps(list(map(_row, part)), default=str),
            "identity": Jsonb(_host_fields(tx.identity)),
            "user_id": user_id,
        }
        ((new, pending, edited, is_admitted),) = await tx.tuples(_SQL["observe"], values)
        if not is_admitted:
            raise serialization_failure()
        accepted += new
        await _edit(tx, session_id, part, edited)
    return Observed(accepted=accepted, pending=pending)


async def _edit(tx: ScopedTransaction, session_id: str, messages: Sequence[Message], edited: Sequence[UUID]) -> None:
    """Store the new content of messages that their author has edited."""
    # the first of several messages with one id counts
    contents: dict[UUID, str] = {}
    for message in messages:
        contents.setdefault(message.id, message.content)
    for message_id in edited:
        values = {
            "session_id": session_id,
            "id": message_id,
            "content": contents[message_id],
            "submitted_by": tx.identity.actor,
        }
        await tx.execute(_SQL["edit"], values)


def _as_stored(message: Message, tx: ScopedTransaction) -> Message:
    """Return the message with an id of its own if the session is stored under another id."""
    stored = tx.stored_session_id
    if stored is None or stored == message.session_id:
        return message
    if message.attached_to is None:
        return replace(message, id=uuid5(message.id, stored), session_id=stored)
    parent = uuid5(message.attached_to, stored)
    return replace(message, id=attachment_id(parent), session_id=stored, attached_to=parent)


def _row(message: Message) -> dict[str, object]:
    offset = offset_minutes(message.said_at)
    return {**vars(message), "scope_key": message.scope_key, "utc_offset": offset}


def _host_fields(identity: Identity) -> dict[str, object]:
    """Return the fields of the identity that a job needs to form the session; agent and session are in the row."""
    return identity.model_dump(include={"user_id", "group_ids", "members", "teaches_agent", "role", "timezone"})


def _parts(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield the messages in parts; at least one part, since its statement returns the pending messages."""
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
    """Return the oldest pending messages of a session.

    Their times are the plausible ones; the rows and the results of a search keep the times of the host.

    Args:
        tx: of the session.
        session_id: the session.
        limit: maximum number of messages.
        quarantined: return the quarantined messages instead of all others.
        skip: number of messages to skip; after the last message the count starts again at the oldest one.
    """
    values = {"session_id": session_id, "most": limit, "quarantined": quarantined, "skip": skip}
    rows = await tx.rows(dict, _SQL["pending"], values)
    figures = {name: rows[0][name] for name in _INBOX_FIGURES}
    message_rows: list[dict[str, Any]] = []
    for row in rows:
        if row["id"]:
            message_rows.append(row)
    times = plausible_times((row["said_at"], row["observed_at"]) for row in message_rows)
    messages: list[Message] = []
    for row, time in zip(message_rows, times, strict=True):
        for name in (*_INBOX_FIGURES, "observed_at"):
            del row[name]
        row["said_at"] = time.astimezone(row["said_at"].tzinfo)  # another time keeps the offset too
        messages.append(Message(**row))
    return Inbox(messages=tuple(messages), **figures)


async def quarantine(tx: ScopedTransaction, message_ids: Sequence[UUID]) -> None:
    """Leave messages without a usable answer of the model to a retry; they stay pending."""
    await tx.execute(_SQL["quarantine"], {"ids": sorted(message_ids)})


async def settle(
    tx: ScopedTransaction,
    op_id: UUID,
    messages: Sequence[Message],
    *,
    read_revision: int,
    forget_after: Mapping[UUID, timedelta] = MappingProxyType({}),
) -> None:
    """Mark messages as formed by this operation.

    Args:
        tx: of the session.
        op_id: the operation.
        messages: as the run has read them.
        read_revision: revision of the agent's history before the run read anything.
        forget_after: by message id, the time from now after which `forget_due` deletes its content.

    Raises:
        ConcurrentChangeError: if another run has formed one of them, its author has edited it, or a memory that this
            run may have read was erased meanwhile; the transaction must end.
    """
    contents: dict[UUID, str] = {}
    for message in messages:
        contents[message.id] = message.content
    ids: list[UUID] = []
    digests: list[bytes] = []
    times: list[timedelta | None] = []
    for message_id, content in sorted(contents.items()):
        ids.append(message_id)
        digests.append(sha256(content.encode()).digest())
        times.append(forget_after.get(message_id))
    values = {
        "op_id": op_id,
        "ids": ids,
        "digests": digests,
        "forget_after": times,
        "read_revision": read_revision,
    }
    if len(await tx.tuples(_SQL["settle"], values)) != len(ids):
        raise ConcurrentChangeError(
            "these messages were formed by another run or edited, or a memory was erased meanwhile; nothing was written"
        )


async def end_formation(tx: ScopedTransaction, session_id: str, lease: Lease) -> tuple[int, bool]:
    """End the lease of a saved formation, and empty messages as `forget_due` does.

    Args:
        tx: of the session, within an operation, which holds the agent's head.
        session_id: the session.
        lease: lease of the formation.

    Returns:
        The number of pending messages of the session, and whether an entry of the visible scope keys may be embedded.
    """
    values = {**lease._asdict(), "session_id": session_id, "most": _PART}
    ((_, pending, has_due_vectors),) = await tx.tuples(_SQL["end_formation"], values)
    return int(pending), bool(has_due_vectors)


async def forget_due(tx: ScopedTransaction) -> int:
    """Empty the oldest of the agent's messages whose time has come; return their number."""
    ((number,),) = await tx.call_with_head("forget_messages", _PART)
    return int(number)


async def list_messages(tx: ScopedTransaction, session_id: str | None, *, limit: int) -> list[Message]:
    """Return the messages of the visible scope keys that still have their content, newest first."""
    values = {"session_id": await tx.find_session(session_id), "most": limit}
    return await tx.rows(Message, _SQL["list_messages"], values, for_host=True)


async def count_messages(tx: ScopedTransaction, session_id: str | None) -> int:
    """Return the number of messages of the visible scope keys that still have their content."""
    session_id = await tx.find_session(session_id)
    ((count,),) = await tx.tuples(_SQL["count_messages"], {"session_id": session_id})
    return int(count)


async def index_messages(tx: ScopedTransaction, model: str, texts: Sequence[IndexedText]) -> None:
    """Make kept messages searchable, piece by piece."""
    values: dict[str, list[Any]] = {"ids": [], "pieces": [], "texts": []}
    vectors: list[Sequence[float] | None] = []
    for text in texts:
        values["ids"].append(text.item_id)
        values["pieces"].append(text.piece)
        values["texts"].append(text.text)
        vectors.append(text.vector)
    await tx.execute(_SQL["index_messages"], {**values, "model": model, "vectors": half_vectors(vectors)})
