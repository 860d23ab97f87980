"""Ledgers of a refinement, without a database."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from mnemic.policy.text.shape import count_tokens
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
    return sum(one.tokens for one in entries)
