"""What an agent may do to its own core memory in a refinement: one function for each tool, each call one operation.

The answers and the refusals are texts that a model reads.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import NoReturn
from uuid import UUID

from mnemic.operations.refinement.session import CoreMemoryEditor, RefinementSession, bracketed, refuse_unknown
from mnemic.policy.refinement.limits import merged_category
from mnemic.policy.text.details import missing_details
from mnemic.policy.text.hygiene import MAX_TEXT_BYTES, clean_text, says_nothing
from mnemic.policy.text.search_text import search_text
from mnemic.policy.text.tokens import count_tokens
from mnemic.policy.text.writing import is_degenerate
from mnemic.prompts.refine import render_found, render_missing
from mnemic.state.errors import RefinementRefusedError
from mnemic.state.refinement import LedgerEntry
from mnemic.storage import memories, refinements
from mnemic.storage.transaction import ScopedTransaction


async def search(session: RefinementSession, query: str, after: date | None, before: date | None) -> str:
    """Core memories of the session's scope key that have one of the words, since and before a day."""
    words = clean_text(query)

    async def act(scoped: ScopedTransaction) -> list[LedgerEntry]:
        ids = await refinements.find(scoped, words, after=_midnight(after), before=_midnight(before))
        entries = {entry.id: entry for entry in await refinements.ledger(scoped)}
        return [entries[memory_id] for memory_id in ids if memory_id in entries]

    return render_found(session.handles.number(await session.read(act)))


async def consolidate(session: RefinementSession, ids_to_merge: Sequence[int], new_content: str) -> str:
    """Replaces memories by one that is not longer and as old as the oldest; the merged are soft-deleted with it.

    Raises:
        RefinementRefusedError: one of them may not be merged, or the text cannot replace them; nothing was written.
    """
    text = require_text(new_content)

    async def act(editor: CoreMemoryEditor) -> tuple[list[LedgerEntry], UUID, list[int]]:
        merged = editor.require_editable(*ids_to_merge)
        _require_no_consolidation(merged)
        _require_one_person(merged)
        if len(merged) < 2:
            raise RefinementRefusedError("a merge takes at least two memories: use update_memory for a single one")
        _require_no_longer(text, merged)
        lost, _ = await editor.count_lost(merged, text)
        category = merged_category([entry.category for entry in merged], session.resources.categories)
        new_id = await refinements.merge(editor.scoped, merged, category, text)
        if new_id is None:
            _refuse_twin(editor.twin(text))
        return merged, new_id, lost

    (merged, new_id, lost), after = await session.run_operation("merge", act)
    new = session.show(after, new_id)
    told = f"{bracketed(ids_to_merge)} became [{new.handle}]: {_change(merged, new, lost)}"
    return f"{told} {session.usage(after)}"


async def update(session: RefinementSession, id: int, content: str) -> str:  # noqa: A002 - the tool's argument
    """Rewrites one memory, or the consolidation, in no more words; what is searched is embedded anew.

    Raises:
        RefinementRefusedError: it may not be changed, or the text cannot replace it; nothing was written.
        EmbeddingError: the new words could not be embedded; nothing was written.
    """
    text = require_text(content)
    vector = await _embedded(session, id, text)

    async def act(editor: CoreMemoryEditor) -> tuple[LedgerEntry, list[int]]:
        (entry,) = editor.require_editable(id)
        if entry.content == text:
            raise RefinementRefusedError(f"[{id}] already says exactly this")
        _require_no_longer(text, [entry])
        if twin := editor.twin(text, of=entry):
            _refuse_twin(twin)
        lost, _ = await editor.count_lost([entry], text)
        model = session.resources.embedder.name
        if not await refinements.rewrite(editor.scoped, entry, text, model=model, vector=vector):
            refuse_unknown(id)
        return entry, lost

    (entry, lost), after = await session.run_operation("update", act)
    return f"[{id}] is changed: {_change([entry], session.show(after, entry.id), lost)} {session.usage(after)}"


async def delete(session: RefinementSession, id: int) -> str:  # noqa: A002 - the tool's argument
    """Soft-deletes one memory; its source messages leave search with it, whatever the role may read.

    Raises:
        RefinementRefusedError: it may not be deleted, or too many have been; nothing was written.
    """

    async def act(editor: CoreMemoryEditor) -> int:
        (entry,) = editor.require_editable(id)
        _require_no_consolidation([entry])
        _, left = await editor.count_lost([entry], "")
        memory = await memories.find(editor.scoped, entry.id)
        if memory is None:
            refuse_unknown(id)
        await memories.see_every_category(editor.scoped)
        await memories.forget(editor.scoped, memory)
        await memories.see_categories(editor.scoped, session.allowed)  # the ledger that is read next is the role's
        return left

    left, after = await session.run_operation("delete", act)
    return f"[{id}] is deleted. You may remove {left} more. {session.usage(after)}"


async def protect(session: RefinementSession, id: int) -> str:  # noqa: A002 - the tool's argument
    """Makes a memory constitutional, within the share of the target that may be.

    Raises:
        RefinementRefusedError: it is protected already, may not be, or does not fit; nothing was written.
    """

    async def act(editor: CoreMemoryEditor) -> UUID:
        (entry,) = editor.require_editable(id)
        _require_no_consolidation([entry])
        now, most = sum(other.tokens for other in editor.entries.values() if other.protected), session.most_protected
        if now + entry.tokens > most:
            raise RefinementRefusedError(f"[{id}] does not fit: {now} tokens are protected, and at most {most} may be")
        if not await refinements.protect(editor.scoped, entry):
            refuse_unknown(id)
        return entry.id

    memory_id, after = await session.run_operation("protect", act)
    session.show(after, memory_id)
    return f"[{id}] is protected from now on. {session.usage(after)}"


def require_text(content: str) -> str:
    """The text as it would be stored.

    Raises:
        RefinementRefusedError: there is none, it repeats itself, or it is longer than a memory may be.
    """
    text = clean_text(content)
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise RefinementRefusedError(f"a memory holds at most {MAX_TEXT_BYTES} bytes: merge fewer memories at once")
    if says_nothing(text) or is_degenerate(text):
        raise RefinementRefusedError("the text is empty or repeats itself: write what the memories say, once")
    return text


def _require_no_consolidation(entries: Sequence[LedgerEntry]) -> None:
    for entry in entries:
        if entry.kind == "consolidation":
            raise RefinementRefusedError(f"[{entry.handle}] is the consolidation: only update_memory can change it")


def _require_one_person(entries: Sequence[LedgerEntry]) -> None:
    # who has no account is told apart by name alone
    people = {(entry.subject_user_id, None if entry.subject_user_id else entry.subject.casefold()) for entry in entries}
    if len(people) > 1:
        numbers = bracketed([entry.handle for entry in entries])
        raise RefinementRefusedError(f"{numbers} are about different people: merge memories about one person only")


def _require_no_longer(text: str, replaced: Sequence[LedgerEntry]) -> None:
    most = sum(entry.tokens for entry in replaced)
    if count_tokens(text) > most:
        raise RefinementRefusedError(
            f"the text has {count_tokens(text)} tokens, what it replaces has {most}: use fewer words"
        )


def _refuse_twin(twin: str | None) -> NoReturn:
    raise RefinementRefusedError(
        f"{twin or 'another memory'} already says exactly this: delete the duplicate, or write another text"
    )


def _change(replaced: Sequence[LedgerEntry], new: LedgerEntry, lost: Sequence[int]) -> str:
    """Tokens before and after, the memories that the new text loses, and the details that it lacks."""
    sizes = f"{sum(entry.tokens for entry in replaced)} tokens, now {new.tokens}."
    losing = f" It keeps hardly anything of {bracketed(lost)}: that counts as removed." if lost else ""
    missing = missing_details([entry.content for entry in replaced], new.content)
    return f"{sizes}{losing} {render_missing(missing, new.handle)}"


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


async def _embedded(session: RefinementSession, number: int, text: str) -> Sequence[float] | None:
    """Of a memory's new words, before the operation, which holds a connection; None for what has no entry."""
    shown = session.handles.shown.get(number)
    entries = await session.read(refinements.ledger) if shown else []
    entry = next((entry for entry in entries if shown and entry.id == shown.id), None)
    if entry is None or entry.kind not in memories.INDEXED or entry.protected:
        return None
    indexed = search_text(entry.valid_from, entry.subject, text)
    return (await session.resources.embedder.embed([indexed]))[0]
