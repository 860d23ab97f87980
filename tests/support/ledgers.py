"""Memories and ledgers of a refinement, without a database."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from mnemic.policy.text.shape import count_tokens
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory
from mnemic.state.refinement import LedgerEntry

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
        "created_at": moment,
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
