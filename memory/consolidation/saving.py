"""The save of a consolidation: the new text replaces the old one and absorbs the reflections, in one operation."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from uuid import UUID

from mnemic.memory.consolidation.collecting import stale_of_run
from mnemic.memory.runtime.graph import release_lease
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import MAX_TEXT_BYTES
from mnemic.prompts.consolidation.write_consolidation import NOTHING_HOLDS
from mnemic.state.consolidation import ConsolidationSnapshot
from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.graphs import ConsolidationState, Lease
from mnemic.state.identity import Identity, display_name, is_shared, split_scope_key
from mnemic.state.records import Memory
from mnemic.storage import leases, memories
from mnemic.storage.transaction import ScopedTransaction


class NewText(NamedTuple):
    """The text that a model wrote."""

    text: str
    #: Share of the sources' details that it keeps.
    kept_share: float


class _Save(NamedTuple):
    """The new text of a scope key, with the texts that it was written from."""

    lease: Lease
    snapshot: ConsolidationSnapshot
    new: NewText
    #: Categories that are a person's own.
    personal: frozenset[str]

    @property
    def stale_ids(self) -> set[UUID]:
        """Ids of the texts with a stale statement."""
        return {row.part_id for row in self.snapshot.stale}


async def save(
    resources: Resources, identity: Identity, lease: Lease, snapshot: ConsolidationSnapshot, new: NewText
) -> ConsolidationState:
    """Replace the text and absorb the reflections in one operation, if all texts are still as they were read.

    Texts with a stale statement are closed, absorbed ones too: a search would find them. After a concurrent change
    nothing is written, and the next run follows at once.
    """
    personal = resources.categories.personal
    count = len(snapshot.reflections)
    try:
        await resources.database.write(identity, partial(_save, save=_Save(lease, snapshot, new, personal)))
    except ConcurrentChangeError:
        await release_lease(resources, identity, lease, failure="interrupted")
        return {"outcome": "stale", "absorbed": 0}
    resources.events.note_count(identity, ("consolidation", "merge"), count)
    return {"outcome": "saved", "absorbed": count}


async def _save(tx: ScopedTransaction, save: _Save) -> None:
    snapshot, stale = save.snapshot, save.stale_ids
    await tx.begin_operation("consolidation", meta={"kept_share": save.new.kept_share})
    stale_now = await memories.find_stale(tx, [save.lease.scope_key], save.personal)
    if stale_of_run(stale_now, snapshot.reflections) != snapshot.stale:
        raise ConcurrentChangeError
    consolidation_id = await _store_text(tx, save)
    absorbed = [memory.id for memory in snapshot.reflections if memory.id not in stale]
    await memories.absorb(tx, consolidation_id, absorbed)
    await memories.close_parts(tx, consolidation_id, stale)
    await leases.finish(tx, save.lease)


async def _store_text(tx: ScopedTransaction, save: _Save) -> UUID:
    """Store the text for the readers, and return the id of the consolidation.

    Readers of a shared scope key get typed sentences. The model's text is stored as the draft of the next run.
    """
    key, snapshot = save.lease.scope_key, save.snapshot
    text, draft = save.new.text, None
    if is_shared(key):
        text, draft = await _shared_text(tx, save), save.new.text
    if snapshot.current:
        await memories.rewrite(tx, snapshot.current, text, draft=draft)
        return snapshot.current.id
    since = min(memory.valid_from for memory in snapshot.reflections)
    category = "profile" if split_scope_key(key)[0] == "user" else "knowledge"
    new = new_memory("consolidation", category, key, text, since, snapshot.owner)
    first = replace(new, provenance="consolidated", draft=draft)
    if not await memories.insert(tx, [first], model="", vectors={}, run_id=None):
        raise ConcurrentChangeError
    return first.id


async def _shared_text(tx: ScopedTransaction, save: _Save) -> str:
    """Return the typed sentences of the absorbed reflections, and of those that this run absorbs."""
    snapshot, stale = save.snapshot, save.stale_ids
    parts: list[Memory] = []
    if snapshot.current:
        parts += await memories.read_absorbed(tx, snapshot.current.id)
    # read again: the snapshot has the model's words
    parts += await _as_typed(tx, {memory.id for memory in snapshot.reflections})
    holding = [memory for memory in parts if memory.id not in stale]
    return typed_sentences(holding, snapshot.word_limit) or NOTHING_HOLDS


async def _as_typed(tx: ScopedTransaction, ids: Collection[UUID]) -> list[Memory]:
    typed: list[Memory] = []
    for scope in (await memories.read_context(tx)).scopes:
        typed += [memory for memory in scope.reflections if memory.id in ids]
    return typed


def typed_sentences(parts: Sequence[Memory], word_limit: int) -> str:
    """Return typed sentences, a line for each with its author, oldest first; the newest ones that fit.

    No code can decide whether a text that a model made of many sentences still has their meaning.

    Args:
        parts: the absorbed reflections of a consolidation of several people.
        word_limit: maximum number of words.
    """
    lines: list[str] = []
    for memory in sorted(parts, key=lambda memory: (memory.valid_from, memory.id), reverse=True):
        line = _typed_line(memory)
        text = "\n".join([*lines, line])
        fits = len(text.split()) <= word_limit and len(text.encode()) <= MAX_TEXT_BYTES
        if fits and line not in lines:
            lines.append(line)
    return "\n".join(reversed(lines))


def _typed_line(memory: Memory) -> str:
    sentence = memory.said or memory.content
    if memory.author:
        return f"- {display_name(memory.author)}: {sentence}"
    return f"- {sentence}"
