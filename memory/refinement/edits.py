"""What a refinement's agent may do: one function for each tool, each call one operation; and the session's end.

The refusals are texts that a model reads, as the answers in `prompts/refine.py` are.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Final
from uuid import UUID

from mnemic.memory.refinement.rules import lost_words, merged_category
from mnemic.memory.refinement.session import CoreMemoryEditor, RefinementSession, Replaced
from mnemic.memory.runtime.embedding import embed_to_store, with_agents_embedder
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.text.kept import missing_details
from mnemic.memory.text.shape import MAX_TEXT_BYTES, clean_text, count_tokens, says_nothing, search_text
from mnemic.memory.text.writing import is_degenerate
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts import refine as answers
from mnemic.state.attribution import is_shared
from mnemic.state.errors import EmbeddingError, RefinementRefusedError
from mnemic.state.identity import split_scope_key
from mnemic.state.records import NewMemory
from mnemic.state.refinement import Ended, LedgerEntry, Refinement
from mnemic.storage import memories, refinements
from mnemic.storage.refinements import Original
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: So far below its target a session has room for words that it has lost.
_ROOM_PERCENT: Final = 2


async def search(session: RefinementSession, query: str, after: date | None, before: date | None) -> str:
    """Core memories of the session's scope key that have one of the words, since and before a day."""

    async def act(scoped: ScopedTransaction) -> list[LedgerEntry]:
        ids = await refinements.find(scoped, clean_text(query), after=after, before=before)
        entries = {entry.id: entry for entry in await refinements.ledger(scoped)}
        return [entries[memory_id] for memory_id in ids if memory_id in entries]

    return answers.render_found(session.show(await session.transact(act)))


async def consolidate(session: RefinementSession, ids_to_merge: Sequence[int], new_content: str) -> str:
    """Replaces memories by one as old as the oldest, no longer than they were; the merged are soft-deleted with it.

    Raises:
        RefinementRefusedError: one of them may not be merged, or the text cannot replace them; nothing was written.
    """
    text = _require_text(new_content)

    async def act(editor: CoreMemoryEditor) -> tuple[list[Replaced], UUID, list[int]]:
        merged = editor.require_editable(*ids_to_merge)
        if len(merged) < 2:
            raise RefinementRefusedError("a merge takes at least two memories: use update_memory for a single one")
        _require_one_person(merged)
        replaced = await editor.replaced(*merged)
        _require_no_longer(text, replaced)
        _require_typed(session, text, merged)
        lost, _ = await editor.count_lost(replaced, text)
        category = merged_category([entry.category for entry in merged], session.resources.categories)
        new_id = await refinements.merge(editor.scoped, merged, category, text)
        if new_id is None:
            raise RefinementRefusedError(answers.TWIN.format(twin=editor.twin(text) or "another memory"))
        return replaced, new_id, lost

    (replaced, new_id, lost), after = await session.run_operation("merge", act)
    return _changed(session, after, replaced, new_id, lost)


async def update(session: RefinementSession, id: int, content: str) -> str:  # noqa: A002 - the tool's argument
    """Rewrites one memory, or the consolidation, no longer than it was; what is searched is embedded anew.

    What the session has shortened may grow again to the length of all that went into it, so that it can be mended.

    Raises:
        RefinementRefusedError: it may not be changed, or the text cannot replace it; nothing was written.
        EmbeddingError: a setting of the embedder is wrong; nothing was written.
    """
    text, shown = _require_text(content), session.shown.get(id)
    vector, resources = None, session.resources
    if shown and shown.kind in memories.INDEXED and not shown.protected:
        # before the operation, which holds a connection
        resources = await with_agents_embedder(resources, session.identity)
        (vector,) = await embed_to_store(resources, [search_text(shown.valid_from, shown.subject, text)])

    async def act(editor: CoreMemoryEditor) -> tuple[list[Replaced], list[int]]:
        (entry,) = editor.require_editable(id, may_be_consolidation=True)
        if entry.content == text:
            raise RefinementRefusedError(f"[{id}] already says exactly this")
        replaced = await editor.replaced(entry)
        _require_no_longer(text, replaced)
        _require_typed(session, text, [entry])
        if twin := editor.twin(text, of=entry):
            raise RefinementRefusedError(answers.TWIN.format(twin=twin))
        lost, _ = await editor.count_lost(replaced, text)
        await memories.rewrite(editor.scoped, entry, text)
        if vector is not None:
            await refinements.set_vector(editor.scoped, entry.id, resources.embedder.name, vector)
        return replaced, lost

    (replaced, lost), after = await session.run_operation("update", act)
    return _changed(session, after, replaced, replaced[0].entry.id, lost)


async def delete(session: RefinementSession, id: int) -> str:  # noqa: A002 - the tool's argument
    """Soft-deletes one memory; its source messages leave search with it, whatever the role may read.

    Raises:
        RefinementRefusedError: it may not be deleted, or too many have been; nothing was written.
    """

    async def act(editor: CoreMemoryEditor) -> tuple[list[Replaced], int]:
        (entry,) = editor.require_editable(id)
        replaced = await editor.replaced(entry)
        _, left = await editor.count_lost(replaced, "")
        await memories.see_categories(editor.scoped, None)
        await memories.forget(editor.scoped, entry)
        await memories.see_categories(editor.scoped, session.allowed)  # the ledger that is read next is the role's
        return replaced, left

    (replaced, left), after = await session.run_operation("delete", act)
    words = _lost_words(session, [original for _, parts in replaced for original in parts], after)
    return f"{answers.deleted(id, left, words)} {answers.usage(after, session.settings.refinement_target)}"


async def protect(session: RefinementSession, id: int) -> str:  # noqa: A002 - the tool's argument
    """Makes a memory constitutional, within the share of the target that may be.

    Raises:
        RefinementRefusedError: it is protected already, may not be, or does not fit; nothing was written.
    """

    async def act(editor: CoreMemoryEditor) -> UUID:
        (entry,) = editor.require_editable(id)
        now, most = sum(other.tokens for other in editor.entries.values() if other.protected), session.most_protected
        if now + entry.tokens > most:
            raise RefinementRefusedError(f"[{id}] does not fit: {now} tokens are protected, and at most {most} may be")
        if not await refinements.protect(editor.scoped, entry):
            raise RefinementRefusedError(answers.UNKNOWN.format(numbers=f"[{id}]"))
        return entry.id

    memory_id, after = await session.run_operation("protect", act)
    session.show(entry for entry in after if entry.id == memory_id)
    return f"{answers.PROTECTED.format(number=id)} {answers.usage(after, session.settings.refinement_target)}"


def _changed(
    session: RefinementSession, after: Sequence[LedgerEntry], replaced: list[Replaced], new_id: UUID, lost: list[int]
) -> str:
    (new,) = session.show(entry for entry in after if entry.id == new_id)
    originals = [original for _, parts in replaced for original in parts]
    # of all that went in, so that what an earlier step left out is named until it is mended
    lacking = missing_details([one.content for one in originals], new.content, [one.since for one in originals])
    # what stands elsewhere does not help whoever looks for this
    words = lost_words(
        [one.content for one in originals], [new.subject, new.content], among=_known(session), named=lacking
    )
    answer = answers.changed([entry for entry, _ in replaced], new, lost, lacking, words)
    return f"{answer} {answers.usage(after, session.settings.refinement_target)}"


def _known(session: RefinementSession) -> list[str]:
    """All texts that the run was shown."""
    return [entry.content for entry in session.shown.values()]


def _lost_words(
    session: RefinementSession, originals: Sequence[Original], after: Sequence[LedgerEntry]
) -> tuple[str, ...]:
    """What no core memory says any more; the ledger shows of each also whom it is about."""
    said = [text for entry in after for text in (entry.subject, entry.content)]
    return lost_words([one.content for one in originals], said, among=_known(session))


async def complete(session: RefinementSession, summary: str) -> str:
    """Ends the session because its agent says so; at first it is told what got lost, if there is room for that.

    Raises:
        RefinementRefusedError: the summary is empty or repeats itself; nothing was written.
        RefinementOverError: the session has ended, or is no longer this run's.
    """
    text = _require_text(" ".join(clean_text(summary).split()))
    if not session.told and (lost := await _lost_with_room(session)):
        return lost
    await finish(session, "completed", text)
    return answers.ENDED


async def _lost_with_room(session: RefinementSession) -> str | None:
    """What is told before the end; None where nothing got lost, or the target leaves no room to put it back."""

    async def act(scoped: ScopedTransaction) -> tuple[list[Original], list[LedgerEntry]]:
        return await refinements.all_originals(scoped, session.claim), await refinements.ledger(scoped)

    originals, after = await session.transact(act)
    target = session.settings.refinement_target
    if 100 * sum(entry.tokens for entry in after) >= (100 - _ROOM_PERCENT) * target:
        return None
    words = _lost_words(session, originals, after)
    session.told.extend(words)
    return answers.before_the_end(words, after, target) if words else None


async def finish(session: RefinementSession, ended: Ended, summary: str = "") -> None:
    """Ends the session in one operation, with a journal memory and a row in the history.

    The figures are the database's, and no word of the summary changes them.

    Raises:
        RefinementOverError: the session has ended, or is no longer this run's.
    """

    async def figures(scoped: ScopedTransaction) -> tuple[Refinement, dict[str, int], list[LedgerEntry]]:
        (row,) = await refinements.listed(scoped, None, refinement_id=session.claim.id)
        return row, await refinements.done(scoped, session.claim.id), await refinements.ledger(scoped)

    row, counts, after = await session.transact(figures)
    # of a session that changed nothing there is nothing to remember
    journals: list[NewMemory] = []
    if counts:
        journals.append(_journal(session, row, _journal_text(row, after, counts.get("PROTECT", 0), ended, summary)))
    resources = await with_agents_embedder(session.resources, session.identity)
    made: list[Vector | None] = []
    try:
        made = await embed_to_store(resources, [journal.search_text for journal in journals])
    except EmbeddingError as error:
        _LOG.warning("the journal of a refinement is found by its words alone: %s", error)
    vectors = dict(zip([journal.id for journal in journals], made, strict=False))

    async def act(scoped: ScopedTransaction) -> None:
        await refinements.begin_act(scoped, session.claim, "refinement")
        await memories.see_categories(scoped, None)  # a role that refines need not be one that reads journals
        stored = await memories.insert(scoped, journals, model=resources.embedder.name, vectors=vectors, run_id=None)
        await refinements.finish(scoped, session.claim, ended, after, counts, next(iter(stored), None))

    await session.transact(act)


def _journal_text(row: Refinement, after: Sequence[LedgerEntry], protected: int, ended: Ended, summary: str) -> str:
    """It begins with a line such as `Refinement: 50 → 3 memories, about 2,000 tokens saved, 5 protected.`"""
    saved = row.tokens_before - sum(entry.tokens for entry in after)
    kept = f", {protected} protected" if protected else ""
    limit = "" if ended in ("completed", "finished") else f" It was ended at its limit of {ended}."
    figures = f"{row.memories_before} → {len(after)} memories, about {saved:,} tokens saved{kept}."
    return f"Refinement: {figures}{limit} {summary}".strip()


def _journal(session: RefinementSession, row: Refinement, text: str) -> NewMemory:
    scope, owner = split_scope_key(row.scope_key)
    # its category is recalled only where a request names it
    journal = new_memory("journal", "journal", row.scope_key, text, session.resources.now(session.identity))
    return replace(journal, subject_user_id=owner if scope == "user" else None, provenance="consolidated")


def _require_text(content: str) -> str:
    """The text as it would be stored."""
    text = clean_text(content)
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise RefinementRefusedError(f"a memory holds at most {MAX_TEXT_BYTES} bytes: merge fewer memories at once")
    if says_nothing(text) or is_degenerate(text):
        raise RefinementRefusedError("the text is empty or repeats itself: write what the memories say, once")
    return text


def _require_one_person(merged: Sequence[LedgerEntry]) -> None:
    """Who has no account is told apart by name alone."""
    people: dict[tuple[str | None, str], list[LedgerEntry]] = defaultdict(list)
    for entry in merged:
        people[entry.subject_user_id, entry.subject_user_id or entry.subject.casefold()].append(entry)
    if len(people) > 1:
        raise RefinementRefusedError(answers.several_people([*people.values()]))


def _require_typed(session: RefinementSession, text: str, replaced: Sequence[LedgerEntry]) -> None:
    """Refuse a text that changes the lines, or joins the authors, of memories that others read as they were typed."""
    key = session.claim.lease.scope_key
    is_typed = any(entry.said is not None or entry.kind == "consolidation" for entry in replaced)
    if not (is_shared(key) and (is_typed or key.startswith("group:"))):
        return
    lines = {line for entry in replaced for line in entry.content.splitlines()}
    if not lines.issuperset(text.splitlines()):
        raise RefinementRefusedError(
            "others read these memories in the words of their authors: keep whole lines as they are, or delete a memory"
        )
    if len({entry.author for entry in replaced if entry.said is not None}) > 1:
        raise RefinementRefusedError(
            "others read each of these memories under the name of its author: merge memories of one author only"
        )


def _require_no_longer(text: str, replaced: Sequence[Replaced]) -> None:
    now, most = count_tokens(text), sum(one.tokens for one in replaced)
    if now > most:
        raise RefinementRefusedError(f"the text has {now} tokens, what it replaces has {most}: use fewer words")
