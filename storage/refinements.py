"""Refinement sessions: their rows, and what their tools do. The caller owns the transaction.

Every change begins with `begin_act`: a session that has ended, or that another run has taken up, changes nothing any
more.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID, uuid4

from mnemic.state.errors import ConcurrentChangeError, RefinementOverError
from mnemic.state.graphs import Lease
from mnemic.state.kinds import CONTEXT_KINDS
from mnemic.state.refinement import Ended, LedgerEntry, Refinement
from mnemic.state.settings import Settings
from mnemic.storage import leases
from mnemic.storage.transaction import ScopedTransaction, half_vectors, load_statements

_SQL = load_statements("refinements")
#: What one search of a session may return.
MAX_FOUND = 20


class Claim(NamedTuple):
    """What the run that holds a refinement knows it by."""

    id: UUID
    #: What the run holds while it works on the scope key.
    lease: Lease


class Original(NamedTuple):
    """What a memory said when the session began, whom it is about, and since when it holds."""

    content: str
    subject: str
    since: datetime


class Progress(NamedTuple):
    """How far a session has come."""

    steps: int
    model_tokens: int
    seconds: float
    removed: int
    memories_before: int


async def begin(tx: ScopedTransaction, claim: Claim, ledger: Sequence[LedgerEntry], *, target: int) -> None:
    """Stores a new session, whose lease the run holds; within an operation, whose history tells of it."""
    values = {
        "id": claim.id,
        "key": claim.lease.scope_key,
        "actor": tx.identity.actor,
        "target": target,
        "tokens": sum(entry.tokens for entry in ledger),
        "memories": len(ledger),
    }
    await tx.execute(_SQL["begin"], values)


async def begin_step(tx: ScopedTransaction, claim: Claim, settings: Settings) -> Progress:
    """Counts a turn before its model is asked, so that one that always breaks off ends too, and holds the session.

    Raises:
        RefinementOverError: the session is no longer this run's.
    """
    if not await leases.renew(tx, claim.lease, settings):
        raise RefinementOverError
    return await add_progress(tx, claim, steps=1)


async def add_progress(
    tx: ScopedTransaction, claim: Claim, *, steps: int = 0, tokens: int = 0, removed: int = 0
) -> Progress:
    """Adds turns, what the model took, and memories that are taken away; how far the session has come.

    Raises:
        RefinementOverError: the session has ended.
    """
    values = {"id": claim.id, "steps": steps, "tokens": tokens, "removed": removed}
    rows = await tx.tuples(_SQL["count"], values)
    if not rows:
        raise RefinementOverError
    return Progress(*rows[0])


async def begin_operation(tx: ScopedTransaction, claim: Claim, reason: str) -> None:
    """Opens an operation of a session; as `ScopedTransaction.begin_operation`.

    Raises:
        RefinementOverError: the session has ended, or is no longer this run's.
    """
    ((is_running,),) = await tx.call_with_head(
        "begin_refinement_act", claim.id, claim.lease.holder, uuid4(), tx.identity.actor, reason
    )
    if not is_running:
        raise RefinementOverError


async def read_ledger(tx: ScopedTransaction) -> list[LedgerEntry]:
    """The core memory of the transaction's scope key, oldest first, numbered from 1."""
    rows = await tx.rows(dict, _SQL["ledger"], {"kinds": CONTEXT_KINDS})
    return [LedgerEntry(**{**row, "tags": tuple(row["tags"])}, handle=place) for place, row in enumerate(rows, start=1)]


async def search_ledger(tx: ScopedTransaction, query: str, *, after: date | None, before: date | None) -> list[UUID]:
    """Core memories that have one of the query's words and hold since a day between these, the most fitting first."""
    values = {"query": query, "after": after, "before": before, "kinds": CONTEXT_KINDS, "most": MAX_FOUND}
    return [memory_id for (memory_id,) in await tx.tuples(_SQL["find"], values)]


async def duplicates(tx: ScopedTransaction, *, remove: bool) -> int:
    """How many memories say exactly what another one says; `remove`: they go, in one operation."""
    ((found,),) = await tx.tuples(_SQL["duplicates"], {"remove": remove})
    return int(found)


async def merge(tx: ScopedTransaction, merged: Sequence[LedgerEntry], category: str, content: str) -> UUID | None:
    """Replaces memories by one; None where a living memory says that already.

    Raises:
        ConcurrentChangeError: one of them is not as it was read.
    """
    ordered = sorted(merged, key=lambda entry: entry.id)
    values = {
        "ids": [entry.id for entry in ordered],
        "versions": [entry.version for entry in ordered],
        "id": uuid4(),
        "category": category,
        "content": content,
        "actor_id": tx.identity.actor,
        "role": tx.identity.role,
    }
    if len(await tx.tuples(_SQL["close_merged"], values)) != len(ordered):
        raise ConcurrentChangeError("one of these memories was changed meanwhile; nothing was written")
    rows = await tx.tuples(_SQL["insert_merged"], values)
    return rows[0][0] if rows else None


async def set_vector(tx: ScopedTransaction, memory_id: UUID, model: str, vector: Sequence[float]) -> None:
    """Gives a memory that is searched the vector of its new words."""
    values = {"memory_id": memory_id, "model": model, "vectors": half_vectors([vector])}
    await tx.execute(_SQL["set_vector"], values)


async def protect(tx: ScopedTransaction, entry: LedgerEntry) -> bool:
    """Protects a core memory; False where it is not as it was read."""
    ((done,),) = await tx.call("protect_in_refinement", entry.id, entry.version)
    return bool(done)


async def read_originals(tx: ScopedTransaction, claim: Claim, entry: LedgerEntry) -> list[Original]:
    """What a memory said when the session began; of a merged one all that went into it."""
    return await tx.rows(Original, _SQL["originals"], {"ids": [entry.id], "id": claim.id})


async def read_all_originals(tx: ScopedTransaction, claim: Claim) -> list[Original]:
    """What every memory that the session has touched said when it began."""
    return await tx.rows(Original, _SQL["originals"], {"ids": None, "id": claim.id})


async def count_outcomes(tx: ScopedTransaction, refinement_id: UUID) -> dict[str, int]:
    """How many memories a session has dealt with, by what it did, as the history tells it."""
    return dict(await tx.tuples(_SQL["done"], {"id": refinement_id}))


async def finish(
    tx: ScopedTransaction,
    claim: Claim,
    ended: Ended,
    ledger_after: Sequence[LedgerEntry],
    counts: Mapping[str, int],
    journal_id: UUID | None,
) -> None:
    """Ends a session with its outcome, and its lease; within an operation, whose history tells of it."""
    values = {
        "id": claim.id,
        "ended": ended,
        "tokens": sum(entry.tokens for entry in ledger_after),
        "memories": len(ledger_after),
        **{event: counts.get(event, 0) for event in ("DEDUP", "MERGE", "UPDATE", "DELETE", "PROTECT")},
        "journal_id": journal_id,
    }
    await tx.execute(_SQL["finish"], values)
    await leases.finish(tx, claim.lease)


async def find_running(tx: ScopedTransaction, key: str) -> Refinement | None:
    """The session of this scope key that has not ended, if there is one."""
    return next(iter(await list_refinements(tx, [key], is_running=True)), None)


async def list_refinements(
    tx: ScopedTransaction,
    keys: Sequence[str] | None,
    *,
    refinement_id: UUID | None = None,
    is_running: bool = False,
    limit: int = 1,
) -> list[Refinement]:
    """Sessions of these scope keys, or of all that the transaction sees, newest first; or the one of this id.

    Args:
        is_running: only those that have not ended.
    """
    values = {"keys": keys, "id": refinement_id, "is_running": is_running, "most": limit}
    return await tx.rows(Refinement, _SQL["listed"], values)
