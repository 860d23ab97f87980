"""Refinement sessions: their rows, and the changes of their tools. The caller owns the transaction.

Every change begins with `begin_operation`, which fails if the session has ended or another run has taken it over.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID, uuid4

from mnemic.state.errors import ConcurrentChangeError, RefinementOverError
from mnemic.state.graphs import Lease
from mnemic.state.history import REFINEMENT_EVENTS
from mnemic.state.kinds import CONTEXT_KINDS
from mnemic.state.refinement import Ended, LedgerEntry, Refinement, total_tokens
from mnemic.state.settings import Settings
from mnemic.storage import leases
from mnemic.storage.transaction import ScopedTransaction, first_column, half_vectors, load_statements

_SQL = load_statements("refinements")
#: Maximum number of results of one search of a session.
MAX_FOUND = 20


class Claim(NamedTuple):
    """A run's claim on a refinement session."""

    id: UUID
    #: Lease of the run on the scope key.
    lease: Lease


class Original(NamedTuple):
    """Content, subject and begin of validity of a memory when the session began."""

    content: str
    subject: str
    since: datetime


class Progress(NamedTuple):
    """Figures of a session so far."""

    steps: int
    model_tokens: int
    seconds: float
    removed: int
    memories_before: int


async def begin(tx: ScopedTransaction, claim: Claim, ledger: Sequence[LedgerEntry], *, target: int) -> None:
    """Store a new session with the run's lease; within an operation, whose history records it."""
    values = {
        "id": claim.id,
        "key": claim.lease.scope_key,
        "actor": tx.identity.actor,
        "target": target,
        "tokens": total_tokens(ledger),
        "memories": len(ledger),
    }
    await tx.execute(_SQL["begin"], values)


async def begin_step(tx: ScopedTransaction, claim: Claim, settings: Settings) -> Progress:
    """Count a turn and renew the lease before the model is called, so that a turn that always fails ends too.

    Raises:
        RefinementOverError: if another run has the session.
    """
    if not await leases.renew(tx, claim.lease, settings):
        raise RefinementOverError
    return await add_progress(tx, claim, steps=1)


async def add_progress(
    tx: ScopedTransaction, claim: Claim, *, steps: int = 0, tokens: int = 0, removed: int = 0
) -> Progress:
    """Add turns, tokens of the model and removed memories to a session; return its figures.

    Raises:
        RefinementOverError: if the session has ended.
    """
    values = {"id": claim.id, "steps": steps, "tokens": tokens, "removed": removed}
    rows = await tx.tuples(_SQL["add_progress"], values)
    if not rows:
        raise RefinementOverError
    return Progress(*rows[0])


async def begin_operation(tx: ScopedTransaction, claim: Claim, reason: str) -> None:
    """Begin an operation of a session, as `ScopedTransaction.begin_operation`.

    Raises:
        RefinementOverError: if the session has ended, or another run has it.
    """
    ((is_running,),) = await tx.call_with_head(
        "begin_refinement_act", claim.id, claim.lease.holder, uuid4(), tx.identity.actor, reason
    )
    if not is_running:
        raise RefinementOverError


async def read_ledger(tx: ScopedTransaction) -> list[LedgerEntry]:
    """Return the context memories of the transaction's scope key, oldest first, numbered from 1."""
    entries = []
    for handle, row in enumerate(await tx.rows(dict, _SQL["read_ledger"], {"kinds": CONTEXT_KINDS}), start=1):
        row["tags"] = tuple(row["tags"])
        entries.append(LedgerEntry(**row, handle=handle))
    return entries


async def search_ledger(tx: ScopedTransaction, query: str, *, after: date | None, before: date | None) -> list[UUID]:
    """Return the context memories with a word of the query that are valid since a day in between, best match first."""
    values = {"query": query, "after": after, "before": before, "kinds": CONTEXT_KINDS, "most": MAX_FOUND}
    return first_column(await tx.tuples(_SQL["search_ledger"], values))


async def count_duplicates(tx: ScopedTransaction) -> int:
    """Return the number of memories with the same content as another one."""
    return await _duplicates(tx, remove=False)


async def remove_duplicates(tx: ScopedTransaction) -> int:
    """Remove the memories with the same content as another one, in the open operation; return their number."""
    return await _duplicates(tx, remove=True)


async def _duplicates(tx: ScopedTransaction, *, remove: bool) -> int:
    ((number,),) = await tx.tuples(_SQL["duplicates"], {"remove": remove})
    return int(number)


async def merge(tx: ScopedTransaction, merged: Sequence[LedgerEntry], category: str, content: str) -> UUID | None:
    """Replace memories by one and return its id; None if an active memory has that content already.

    Raises:
        ConcurrentChangeError: if one of them is not as it was read.
    """
    ids: list[UUID] = []
    versions: list[int] = []
    for entry in sorted(merged, key=lambda entry: entry.id):
        ids.append(entry.id)
        versions.append(entry.version)
    values = {
        "ids": ids,
        "versions": versions,
        "id": uuid4(),
        "category": category,
        "content": content,
        "actor_id": tx.identity.actor,
        "role": tx.identity.role,
    }
    if len(await tx.tuples(_SQL["close_merged"], values)) != len(ids):
        raise ConcurrentChangeError("one of these memories was changed meanwhile; nothing was written. Run it again")
    rows = await tx.tuples(_SQL["insert_merged"], values)
    return rows[0][0] if rows else None


async def set_vector(tx: ScopedTransaction, memory_id: UUID, model: str, vector: Sequence[float]) -> None:
    """Store the vector of a searchable memory's new content."""
    values = {"memory_id": memory_id, "model": model, "vectors": half_vectors([vector])}
    await tx.execute(_SQL["set_vector"], values)


async def protect(tx: ScopedTransaction, entry: LedgerEntry) -> bool:
    """Protect a context memory; return False if it is not as it was read."""
    ((is_done,),) = await tx.call("protect_in_refinement", entry.id, entry.version)
    return bool(is_done)


async def read_originals(tx: ScopedTransaction, claim: Claim, entry: LedgerEntry) -> list[Original]:
    """Return the original of a memory; of a merged memory, those of all its sources."""
    return await tx.rows(Original, _SQL["read_originals"], {"ids": [entry.id], "id": claim.id})


async def read_all_originals(tx: ScopedTransaction, claim: Claim) -> list[Original]:
    """Return the originals of all memories that the session has changed."""
    return await tx.rows(Original, _SQL["read_originals"], {"ids": None, "id": claim.id})


async def count_outcomes(tx: ScopedTransaction, refinement_id: UUID) -> dict[str, int]:
    """Return the number of memories that a session has changed, by event of the history."""
    return dict(await tx.tuples(_SQL["count_outcomes"], {"id": refinement_id}))


async def finish(  # noqa: PLR0913 - the values of one statement
    tx: ScopedTransaction,
    claim: Claim,
    ended: Ended,
    ledger_after: Sequence[LedgerEntry],
    counts: Mapping[str, int],
    journal_id: UUID | None,
) -> None:
    """Store the outcome of a session and end its lease; within an operation, whose history records it."""
    values = {
        "id": claim.id,
        "ended": ended,
        "tokens": total_tokens(ledger_after),
        "memories": len(ledger_after),
        "journal_id": journal_id,
    }
    for event in REFINEMENT_EVENTS:
        values[event] = counts.get(event, 0)
    await tx.execute(_SQL["finish"], values)
    await leases.finish(tx, claim.lease)


async def find_running(tx: ScopedTransaction, key: str) -> Refinement | None:
    """Return the session of this scope key that has not ended, or None."""
    sessions = await list_refinements(tx, [key], is_running=True)
    return sessions[0] if sessions else None


async def list_refinements(
    tx: ScopedTransaction,
    keys: Sequence[str] | None,
    *,
    refinement_id: UUID | None = None,
    is_running: bool = False,
    limit: int = 1,
) -> list[Refinement]:
    """Return sessions, newest first.

    Args:
        tx: sees the scope keys.
        keys: scope keys; None: all that are visible.
        refinement_id: the only session; None: all.
        is_running: return only sessions that have not ended.
        limit: maximum number of sessions.
    """
    values = {"keys": keys, "id": refinement_id, "is_running": is_running, "most": limit}
    return await tx.rows(Refinement, _SQL["list_refinements"], values)
