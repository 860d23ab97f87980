"""The end of a refinement: figures that are counted, a journal memory, and a row in the history."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from mnemic.operations.refinement.edits import require_text
from mnemic.operations.refinement.session import RefinementSession
from mnemic.policy.text.shape import clean_text, display_name, search_text
from mnemic.state.errors import EmbeddingError, RefinementRefusedError
from mnemic.state.identity import split_scope_key
from mnemic.state.records import NewMemory
from mnemic.state.refinement import Ended, LedgerEntry, Refinement
from mnemic.storage import memories, refinements
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
MAX_SUMMARY_CHARS: Final = 500
#: Recalled only where a request names it.
_CATEGORY: Final = "journal"
_LIMITS: Final[dict[Ended, str]] = {"steps": "turns", "tokens": "tokens", "time": "time"}


async def complete(session: RefinementSession, summary: str) -> str:
    """Ends the session because its agent says so.

    Raises:
        RefinementRefusedError: the summary is empty, repeats itself or is too long; nothing was written.
        RefinementOverError: the session has ended, or is no longer this run's.
    """
    text = " ".join(clean_text(summary).split())
    if len(text) > MAX_SUMMARY_CHARS:
        raise RefinementRefusedError(f"a summary has at most {MAX_SUMMARY_CHARS} characters: use a sentence or two")
    await finish(session, "completed", require_text(text))
    return "The refinement has ended."


async def finish(session: RefinementSession, ended: Ended, summary: str = "") -> None:
    """Ends the session in one operation. The figures are the database's, and no word of the summary changes them.

    Raises:
        RefinementOverError: the session has ended, or is no longer this run's.
    """
    row, counts, after = await session.read(lambda scoped: _figures(scoped, session.claim.id))
    line = outcome(row, after, counts.get("PROTECT", 0), ended)
    # of a session that changed nothing there is nothing to remember
    journals = [_journal(session, f"Refinement: {line} {summary}".strip())] if counts else []
    vectors = {journal.id: await _embedded(session, journal.search_text) for journal in journals}

    async def act(scoped: ScopedTransaction) -> None:
        await refinements.begin_act(scoped, session.claim, "refinement")
        await memories.see_every_category(scoped)  # a role that refines need not be one that reads journals
        model = session.resources.embedder.name
        stored = await memories.insert(scoped, journals, model=model, vectors=vectors, run_id=None)
        await refinements.finish(scoped, session.claim, ended, after, counts, next(iter(stored), None))

    await session.write(act)


def outcome(row: Refinement, after: Sequence[LedgerEntry], protected: int, ended: Ended) -> str:
    """One line of a refinement, such as `50 → 3 memories, about 2,000 tokens saved, 5 protected.`"""
    saved = row.tokens_before - sum(entry.tokens for entry in after)
    kept = f", {protected} protected" if protected else ""
    limit = f" It was ended at its limit of {_LIMITS[ended]}." if ended in _LIMITS else ""
    return f"{row.memories_before} → {len(after)} memories, about {saved:,} tokens saved{kept}.{limit}"


async def _figures(
    scoped: ScopedTransaction, refinement_id: UUID
) -> tuple[Refinement, dict[str, int], list[LedgerEntry]]:
    row = await refinements.one(scoped, refinement_id)
    return row, await refinements.done(scoped, refinement_id), await refinements.ledger(scoped)


def _journal(session: RefinementSession, text: str) -> NewMemory:
    key, now = session.claim.scope_key, datetime.now(UTC)
    scope, owner = split_scope_key(key)
    subject = display_name(owner)
    return NewMemory(
        id=uuid4(),
        kind="journal",
        scope_key=key,
        category=_CATEGORY,
        content=text,
        search_text=search_text(now, subject, text),
        subject=subject,
        subject_user_id=owner if scope == "user" else None,
        provenance="consolidated",
        valid_from=now,
    )


async def _embedded(session: RefinementSession, text: str) -> list[float] | None:
    """Of the journal's words; a session ends without it too, and the journal is found by its words."""
    try:
        (vector,) = await session.resources.embedder.embed([text])
    except EmbeddingError as error:
        _LOG.warning("the journal of a refinement is found by its words alone: %s", error)
        return None
    return list(vector)
