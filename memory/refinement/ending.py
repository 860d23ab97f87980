"""The end of a refinement: its journal, its row in the history, and its figures."""

import logging
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from mnemic.memory.refinement.session import RefinementSession
from mnemic.memory.runtime.embedding import embed_to_store, with_agents_embedder
from mnemic.memory.runtime.identity import log_ids
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.models.embedders.vectors import Vector
from mnemic.state.errors import EmbeddingError
from mnemic.state.identity import split_scope_key
from mnemic.state.records import NewMemory
from mnemic.state.refinement import Ended, LedgerEntry, Refinement, total_tokens
from mnemic.storage import memories, refinements
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")


class _Figures(NamedTuple):
    """Figures of a session, from the database."""

    row: Refinement
    #: Numbers of changed memories by event of the history.
    counts: dict[str, int]
    after: list[LedgerEntry]


class _Journal(NamedTuple):
    """The journal memory of a session, with its vector."""

    memory: NewMemory
    #: Name of the embedder.
    model: str
    vector: Vector | None


async def close(session: RefinementSession, ended: Ended | None) -> Refinement:
    """Return the row of the session, after its end if no tool has ended it."""
    if ended is not None and ended != "completed":
        await finish(session, ended)
    row = await session.transact(partial(_row, session=session))
    events = session.resources.events
    for event, count in (("merge", row.merged), ("update", row.updated), ("delete", row.deleted)):
        events.note_count(session.identity, ("refinement", event), count)
    return row


async def finish(session: RefinementSession, ended: Ended, summary: str = "") -> None:
    """End the session in one operation, with a journal memory and a row in the history.

    The figures come from the database; the summary cannot change them. A session without changes has no journal.

    Raises:
        RefinementOverError: if the session has ended, or another run holds it.
    """
    figures = await session.transact(partial(_read_figures, session=session))
    journal = None
    if figures.counts:
        journal = await _write_journal(session, figures, ended, summary)
    await session.transact(partial(_store, session=session, ended=ended, figures=figures, journal=journal))


async def _row(tx: ScopedTransaction, session: RefinementSession) -> Refinement:
    (row,) = await refinements.list_refinements(tx, None, refinement_id=session.claim.id)
    return row


async def _read_figures(tx: ScopedTransaction, session: RefinementSession) -> _Figures:
    row = await _row(tx, session)
    return _Figures(row, await refinements.count_outcomes(tx, session.claim.id), await refinements.read_ledger(tx))


async def _write_journal(session: RefinementSession, figures: _Figures, ended: Ended, summary: str) -> _Journal:
    memory = _journal_memory(session, _journal_text(figures, ended, summary))
    resources = await with_agents_embedder(session.resources, session.identity)
    vector: Vector | None = None
    try:
        (vector,) = await embed_to_store(resources, [memory.search_text])
    except EmbeddingError as error:
        _LOG.warning(
            "The journal of refinement %s has no vector: %s", session.claim.id, error, extra=log_ids(session.identity)
        )
    return _Journal(memory, resources.embedder.name, vector)


async def _store(
    tx: ScopedTransaction, session: RefinementSession, ended: Ended, figures: _Figures, journal: _Journal | None
) -> None:
    await refinements.begin_operation(tx, session.claim, "refinement")
    journal_id = None
    if journal:
        new, model, vector = journal
        await memories.allow_categories(tx, None)  # the role that refines may not read journals
        stored = await memories.insert(tx, [new], model=model, vectors={new.id: vector}, run_id=None)
        journal_id = next(iter(stored), None)
    await refinements.finish(tx, session.claim, ended, figures.after, figures.counts, journal_id)


def _journal_text(figures: _Figures, ended: Ended, summary: str) -> str:
    """Return a text such as `Refinement: 50 → 3 memories, about 2,000 tokens saved, 5 protected. SUMMARY`."""
    row, after = figures.row, figures.after
    saved = row.tokens_before - total_tokens(after)
    protected = figures.counts.get("PROTECT", 0)
    part = f", {protected} protected" if protected else ""
    limit = f" It was ended at its limit of {ended}."
    if ended in ("completed", "finished"):
        limit = ""
    sizes = f"{row.memories_before} → {len(after)} memories, about {saved:,} tokens saved{part}."
    return f"Refinement: {sizes}{limit} {summary}".strip()


def _journal_memory(session: RefinementSession, text: str) -> NewMemory:
    key, now = session.scope_key, session.resources.now(session.identity)
    scope, owner = split_scope_key(key)
    # recall finds this category only if a request names it
    memory = new_memory("journal", "journal", key, text, now)
    user_id = owner if scope == "user" else None
    return replace(memory, subject_user_id=user_id, provenance="consolidated")
