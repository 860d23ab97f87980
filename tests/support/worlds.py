"""Identities, messages, memories and ledgers for tests, and the shortest way to store them as the service does."""

import math
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from mnemic.memory.text.shape import count_tokens
from mnemic.state.graphs import MemoryContext
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind, Role
from mnemic.state.records import Memory, Message, NewMemory
from mnemic.state.refinement import LedgerEntry
from mnemic.storage import memories
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction

AGENT = "harbor"
MODEL = "test-model"
MORNING = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def identity(
    user: str | None = "ana",
    *,
    agent: str = AGENT,
    groups: Sequence[str] = (),
    session: str | None = None,
    teaches: bool = False,
) -> Identity:
    return Identity(agent_id=agent, user_id=user, group_ids=tuple(groups), session_id=session, teaches_agent=teaches)


def text_of(context: MemoryContext) -> str:
    """All that a recall shows a model."""
    return "\n\n".join(filter(None, (context.standing, context.turn)))


def direction(degrees: float, size: int = 8) -> tuple[float, ...]:
    """A unit vector; two of them are as similar as the cosine of the angle between them."""
    return (math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), *([0.0] * (size - 2)))


def message(
    content: str, *, session: str = "s1", user: str | None = "ana", role: Role = "user", said_at: datetime = MORNING
) -> Message:
    return Message(
        id=uuid.uuid4(),
        session_id=session,
        role=role,
        author=user.title() if user else "assistant",
        user_id=user,
        content=content,
        said_at=said_at,
    )


def memory(
    content: str,
    *,
    kind: Kind = "fact",
    key: str = "user:ana",
    subject_user: str | None = None,
    sources: Sequence[Message] = (),
    valid_from: datetime = MORNING,
) -> NewMemory:
    return NewMemory(
        id=uuid.uuid4(),
        kind=kind,
        scope_key=key,
        category="profile",
        content=content,
        search_text=f"[2026-03-02] {content}",
        subject="Ana",
        subject_user_id=subject_user,
        valid_from=valid_from,
        source_message_ids=tuple(source.id for source in sources),
    )


async def operate(db: Database, who: Identity, *acts: Callable[[ScopedTransaction], Awaitable[object]]) -> None:
    """One operation of the service's role, with one act after the other."""
    async with db.transaction(who) as tx:
        await tx.begin_operation("formation")
        for act in acts:
            await act(tx)


def storing(*new: NewMemory) -> Callable[[ScopedTransaction], Awaitable[object]]:
    """Return an act of an operation that stores memories without vectors."""
    return lambda tx: memories.insert(tx, new, model=MODEL, vectors={}, run_id=None)


def executing(statement: Any, **values: Any) -> Callable[[ScopedTransaction], Awaitable[object]]:
    """An act of an operation: one statement."""
    return lambda tx: tx.execute(statement, values)


async def remember(
    db: Database,
    who: Identity,
    *new: NewMemory,
    also: Sequence[str] = (),
    vectors: Mapping[uuid.UUID, Sequence[float] | None] | None = None,
    model: str = MODEL,
    run_id: str | None = None,
) -> set[uuid.UUID]:
    """Stores memories in one operation of the service's role."""
    async with db.transaction(who, also=also) as tx:
        await tx.execute("insert into agents (agent_id) values (%(agent_id)s) on conflict do nothing", {})
        await tx.begin_operation("formation", run_id=run_id)
        return await memories.insert(tx, new, model=model, vectors=vectors or {}, run_id=run_id)


def expire_leases(superuser: psycopg.Connection) -> None:
    """As if every run had begun too long ago, and every wait after a failure were over."""
    superuser.execute("update mnemic.leases set until = clock_timestamp()")


BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)


def entry(handle: int, content: str, **given: Any) -> LedgerEntry:
    """A core memory on Mara, of the day whose number the handle is."""
    moment = BEGAN + timedelta(days=handle)
    values: dict[str, Any] = {
        "id": UUID(int=handle),
        "version": 1,
        "kind": "core",
        "category": "knowledge",
        "subject": "Mara",
        "subject_user_id": "mara",
        "valid_from": moment,
        "tokens": count_tokens(content),
        "importance": 3,
        "protected": False,
        "pinned": False,
        "private": False,
    }
    return LedgerEntry(handle=handle, content=content, **{**values, **given})


def ledger(*contents: str, **given: Any) -> tuple[LedgerEntry, ...]:
    """One entry for each text, numbered from 1."""
    return tuple(entry(handle, content, **given) for handle, content in enumerate(contents, start=1))


def tokens_of(entries: Iterable[LedgerEntry]) -> int:
    """Tokens of all of them."""
    return sum(entry.tokens for entry in entries)


def remembered(content: str, *, kind: Kind = "fact", key: str = "user:mara", number: int = 1, **fields: Any) -> Memory:
    """A memory of Mara's as the database gives it back."""
    values: dict[str, Any] = {
        "category": "preferences",
        "subject": "Mara",
        "subject_user_id": None,
        "importance": 2,
        "version": 1,
        "pinned": False,
        "protected": False,
        "private": False,
        "provenance": "asserted",
        "state": "active",
        "valid_from": BEGAN,
        "valid_until": None,
        "superseded_by": None,
        "source_session_id": None,
        "created_at": BEGAN,
        "updated_at": BEGAN,
        "tokens": count_tokens(content),
    }
    return Memory(id=UUID(int=number), kind=kind, scope_key=key, content=content, **{**values, **fields})
