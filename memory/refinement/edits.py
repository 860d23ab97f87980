"""The operations behind a refinement's tools: each call is one operation, and returns its answer to the model."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.refinement.checks import require_no_longer, require_one_person, require_text, require_typed_lines
from mnemic.memory.refinement.editor import ContextMemoryEditor, Replaced
from mnemic.memory.refinement.ending import finish
from mnemic.memory.refinement.losses import lost_words
from mnemic.memory.refinement.merging import merged_category
from mnemic.memory.refinement.session import RefinementSession, protected_tokens, read_entries
from mnemic.memory.runtime.embedding import embed_to_store, with_agents_embedder
from mnemic.memory.text.kept import missing_details
from mnemic.memory.text.shape import clean_text, search_text
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts.refinement import tools as tool_texts
from mnemic.prompts.refinement.tools import COMPLETE
from mnemic.state.errors import RefinementRefusedError
from mnemic.state.kinds import INDEXED_KINDS
from mnemic.state.refinement import LedgerEntry, total_tokens
from mnemic.storage import memories, refinements
from mnemic.storage.refinements import Original
from mnemic.storage.transaction import ScopedTransaction

#: A session has room for lost words if it is more than this share below its target.
_ROOM_PERCENT: Final = 2


class _Edit(NamedTuple):
    """A merge or an update as it was written."""

    replaced: Sequence[Replaced]
    #: Id of the memory with the new text.
    new_id: UUID
    #: Numbers of the memories that the text loses.
    lost: Sequence[int]


class _NewVector(NamedTuple):
    """The vector of a new text."""

    #: Name of the embedder.
    model: str
    vector: Vector


async def search(session: RefinementSession, query: str, after: date | None, before: date | None) -> str:
    """Return the context memories with one of the words that hold since a day of this range."""
    find = partial(_find, query=clean_text(query), after=after, before=before)
    return tool_texts.searched(session.show(await session.transact(find)))


async def _find(tx: ScopedTransaction, query: str, after: date | None, before: date | None) -> list[LedgerEntry]:
    entries = await read_entries(tx)
    ids = await refinements.search_ledger(tx, query, after=after, before=before)
    return [entries[memory_id] for memory_id in ids if memory_id in entries]


async def consolidate(session: RefinementSession, ids_to_merge: Sequence[int], new_content: str) -> str:
    """Replace memories by one that is as old as the oldest, no longer than they were, and soft-delete them.

    Raises:
        RefinementRefusedError: if one of them may not be merged, or if the text cannot replace them.
    """
    text = require_text(new_content)
    edit, after = await session.run_operation("merge", partial(_merge, numbers=ids_to_merge, text=text))
    return _changed(session, edit, after)


async def _merge(editor: ContextMemoryEditor, numbers: Sequence[int], text: str) -> _Edit:
    merged = editor.require_editable(*numbers)
    if len(merged) < 2:
        raise RefinementRefusedError(tool_texts.ONE_MEMORY)
    require_one_person(merged)
    replaced = await editor.replaced(merged)
    require_no_longer(text, replaced)
    require_typed_lines(editor.session.scope_key, text, merged)
    lost, _ = await editor.count_lost(replaced, text)
    categories = editor.session.resources.categories
    category = merged_category([entry.category for entry in merged], categories)
    new_id = await refinements.merge(editor.tx, merged, category, text)
    if new_id is None:
        raise RefinementRefusedError(tool_texts.duplicate(editor.duplicate_of(text) or tool_texts.ANOTHER_MEMORY))
    return _Edit(replaced, new_id, lost)


async def update(session: RefinementSession, id: int, content: str) -> str:
    """Rewrite one memory, or the consolidation, no longer than it was; a searchable one gets a new vector.

    A memory that the session has shortened may grow again to the length of its originals.

    Raises:
        RefinementRefusedError: if it may not be changed, or if the text cannot replace it.
        EmbeddingError: if a setting of the embedder is wrong; nothing was written.
    """
    text = require_text(content)
    # before the operation, which holds a connection
    new_vector = await _new_vector(session, id, text)
    edit, after = await session.run_operation("update", partial(_update, number=id, text=text, new_vector=new_vector))
    return _changed(session, edit, after)


async def _new_vector(session: RefinementSession, number: int, text: str) -> _NewVector | None:
    """Return the vector of a new text, or None if the memory is not searchable or may not be changed."""
    shown = session.by_number.get(number)
    if shown is None or shown.protected or shown.kind not in INDEXED_KINDS:
        return None
    resources = await with_agents_embedder(session.resources, session.identity)
    (vector,) = await embed_to_store(resources, [search_text(shown.valid_from, shown.subject, text)])
    if vector is None:
        return None
    return _NewVector(resources.embedder.name, vector)


async def _update(editor: ContextMemoryEditor, number: int, text: str, new_vector: _NewVector | None) -> _Edit:
    (entry,) = editor.require_editable(number, may_be_consolidation=True)
    if entry.content == text:
        raise RefinementRefusedError(tool_texts.unchanged(number))
    replaced = await editor.replaced([entry])
    require_no_longer(text, replaced)
    require_typed_lines(editor.session.scope_key, text, [entry])
    duplicate = editor.duplicate_beside(entry, text)
    if duplicate:
        raise RefinementRefusedError(tool_texts.duplicate(duplicate))
    lost, _ = await editor.count_lost(replaced, text)
    await memories.rewrite(editor.tx, entry, text)
    if new_vector is not None:
        await refinements.set_vector(editor.tx, entry.id, new_vector.model, new_vector.vector)
    return _Edit(replaced, entry.id, lost)


async def delete(session: RefinementSession, id: int) -> str:
    """Soft-delete one memory; its source messages leave search with it, in every category.

    Raises:
        RefinementRefusedError: if it may not be deleted, or if too many have been.
    """
    (originals, removable), after = await session.run_operation("delete", partial(_delete, number=id))
    words = _words_lost_everywhere(session, originals, after)
    return f"{tool_texts.deleted(id, removable, words)} {tool_texts.usage(after, session.settings.refinement_target)}"


async def _delete(editor: ContextMemoryEditor, number: int) -> tuple[Sequence[Original], int]:
    """Return the originals of the deleted memory, and the number of memories that may still be removed."""
    (entry,) = editor.require_editable(number)
    (replaced,) = await editor.replaced([entry])
    _, removable = await editor.count_lost([replaced], "")
    await memories.allow_categories(editor.tx, None)
    await memories.forget(editor.tx, entry)
    # the ledger that is read next has the role's categories only
    await memories.allow_categories(editor.tx, editor.session.allowed)
    return replaced.originals, removable


async def protect(session: RefinementSession, id: int) -> str:
    """Protect a memory for good, within the share of the target that may be protected.

    Raises:
        RefinementRefusedError: if it is protected already, may not be, or does not fit.
    """
    memory_id, after = await session.run_operation("protect", partial(_protect, number=id))
    session.show_memory(after, memory_id)
    return f"{tool_texts.protected(id)} {tool_texts.usage(after, session.settings.refinement_target)}"


async def _protect(editor: ContextMemoryEditor, number: int) -> UUID:
    (entry,) = editor.require_editable(number)
    protected, limit = protected_tokens(editor.entries.values()), editor.session.max_protected_tokens
    if protected + entry.tokens > limit:
        raise RefinementRefusedError(tool_texts.protects_too_much(number, protected, limit))
    if not await refinements.protect(editor.tx, entry):
        raise RefinementRefusedError(tool_texts.unknown([number]))
    return entry.id


async def complete(session: RefinementSession, summary: str) -> str:
    """End the session. The first attempt returns the lost words instead, if there are any and there is room for them.

    Raises:
        RefinementRefusedError: if the summary is empty or repeats itself; nothing was written.
        RefinementOverError: if the session has ended, or another run holds it.
    """
    text = require_text(" ".join(clean_text(summary).split()))
    if not session.reported_losses:
        not_ended = await _lost_with_room(session)
        if not_ended:
            return not_ended
    await finish(session, "completed", text)
    return tool_texts.ENDED


async def _lost_with_room(session: RefinementSession) -> str | None:
    """Return the answer with the lost words, or None without any, or if the target leaves no room for them."""
    originals, after = await session.transact(partial(_all_originals, session=session))
    target = session.settings.refinement_target
    if 100 * total_tokens(after) >= (100 - _ROOM_PERCENT) * target:
        return None
    words = _words_lost_everywhere(session, originals, after)
    session.reported_losses.extend(words)
    if not words:
        return None
    return tool_texts.not_ended_yet(words, after, target)


async def _all_originals(tx: ScopedTransaction, session: RefinementSession) -> tuple[list[Original], list[LedgerEntry]]:
    return await refinements.read_all_originals(tx, session.claim), await refinements.read_ledger(tx)


def _changed(session: RefinementSession, edit: _Edit, after: Sequence[LedgerEntry]) -> str:
    """Return the answer to a merge or an update.

    It names losses against all originals, so that a detail that an earlier step left out is named until it is back.
    """
    new = session.show_memory(after, edit.new_id)
    entries: list[LedgerEntry] = []
    contents: list[str] = []
    times: list[datetime] = []
    for entry, originals in edit.replaced:
        entries.append(entry)
        for original in originals:
            contents.append(original.content)
            times.append(original.since)
    details = missing_details(contents, new.content, times)
    # words of other memories do not help a search for this one
    words = lost_words(contents, [new.subject, new.content], among=_shown_texts(session), named=details)
    answer = tool_texts.changed(entries, new, edit.lost, details, words)
    return f"{answer} {tool_texts.usage(after, session.settings.refinement_target)}"


def _words_lost_everywhere(
    session: RefinementSession, originals: Sequence[Original], after: Sequence[LedgerEntry]
) -> tuple[str, ...]:
    """Return distinctive words of the originals that no context memory has; its subject is part of a memory."""
    remaining: list[str] = []
    for entry in after:
        remaining += [entry.subject, entry.content]
    return lost_words([original.content for original in originals], remaining, among=_shown_texts(session))


def _shown_texts(session: RefinementSession) -> list[str]:
    return [entry.content for entry in session.by_number.values()]


#: The operation of each tool in `prompts/refinement/tools.py`. It takes the session and the tool's arguments.
OPERATIONS: Final[Mapping[str, Callable[..., Awaitable[str]]]] = MappingProxyType(
    {
        "search_memories": search,
        "consolidate_memories": consolidate,
        "update_memory": update,
        "delete_memory": delete,
        "protect_memory": protect,
        COMPLETE: complete,
    }
)
