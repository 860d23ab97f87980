"""Refinement: the end of a session, with figures that are counted, a journal memory and its row in the history."""

import logging
from datetime import UTC, datetime
from uuid import UUID, uuid4

from mnemic.operations.refinement.session import Refining
from mnemic.policy.text.degenerate import is_degenerate
from mnemic.policy.text.hygiene import clean_text, says_nothing
from mnemic.policy.text.names import display_name
from mnemic.policy.text.search_text import search_text
from mnemic.prompts import refinement_tools as told
from mnemic.state.errors import EmbeddingError, KnifeRefusedError
from mnemic.state.identity import split_scope_key
from mnemic.state.records import NewMemory
from mnemic.state.refinement import Ended, LedgerEntry, Refinement
from mnemic.storage import memories, refinements
from mnemic.storage.database import Scoped

_LOG = logging.getLogger("mnemic")
MAX_SUMMARY_CHARS = 500
#: Recalled only where a request names it.
_CATEGORY = "journal"


async def complete(refining: Refining, summary: str) -> str:
    """Ends the session because its agent says so.

    Raises:
        KnifeRefusedError: the summary is empty, repeats itself or is too long; nothing was written.
        RefinementOverError: the session has ended, or is no longer this run's.
    """
    text = " ".join(clean_text(summary).split())
    if says_nothing(text) or is_degenerate(text):
        raise KnifeRefusedError(told.no_text())
    if len(text) > MAX_SUMMARY_CHARS:
        raise KnifeRefusedError(told.summary_too_long(MAX_SUMMARY_CHARS))
    await finish(refining, "completed", text)
    return told.completed()


async def finish(refining: Refining, ended: Ended, summary: str = "") -> None:
    """Ends the session in one operation. The figures are the database's, and no word of the summary changes them.

    Raises:
        RefinementOverError: the session has ended, or is no longer this run's.
    """
    row, counts, after = await refining.read(lambda scoped: _figures(scoped, refining.claim.id))
    line = told.outcome(
        (row.memories_before, row.tokens_before),
        (len(after), sum(entry.tokens for entry in after)),
        counts.get("PROTECT", 0),
        ended,
    )
    # of a session that changed nothing there is nothing to remember
    journals = [_journal(refining, f"Refinement: {line} {summary}".strip())] if counts else []
    vectors = {journal.id: await _vector(refining, journal.search_text) for journal in journals}

    async def act(scoped: Scoped) -> None:
        await refinements.begin_knife(scoped, refining.claim, "refinement")
        await memories.see_every_category(scoped)  # a role that refines need not be one that reads journals
        model = refining.resources.embedder.name
        stored = await memories.insert(scoped, journals, model=model, vectors=vectors, run_id=None)
        await refinements.finish(scoped, refining.claim, ended, after, counts, next(iter(stored), None))

    await refining.write(act)


async def _figures(scoped: Scoped, refinement_id: UUID) -> tuple[Refinement, dict[str, int], list[LedgerEntry]]:
    row = await refinements.one(scoped, refinement_id)
    return row, await refinements.done(scoped, refinement_id), await refinements.ledger(scoped)


def _journal(refining: Refining, text: str) -> NewMemory:
    key, now = refining.claim.scope_key, datetime.now(UTC)
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


async def _vector(refining: Refining, text: str) -> list[float] | None:
    """Of the journal's words; a session ends without it too, and the journal is found by its words."""
    try:
        (vector,) = await refining.resources.embedder.embed([text])
    except EmbeddingError as error:
        _LOG.warning("the journal of a refinement is found by its words alone: %s", error)
        return None
    return list(vector)
