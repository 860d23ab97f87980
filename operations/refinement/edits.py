"""The knife: what an agent may do to its own core memory inside a refinement, each call one operation (seed C)."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

from mnemic.operations.refinement.editor import Core
from mnemic.operations.refinement.session import Refining
from mnemic.policy.refinement.limits import merged_category, protectable
from mnemic.policy.text.degenerate import is_degenerate
from mnemic.policy.text.hygiene import MAX_TEXT_BYTES, clean_text, says_nothing
from mnemic.policy.text.retention import missing_details
from mnemic.policy.text.search_text import search_text
from mnemic.policy.text.tokens import count_tokens
from mnemic.prompts import refinement_tools as told
from mnemic.state.errors import KnifeRefusedError
from mnemic.state.refinement import LedgerEntry
from mnemic.storage import memories, refinements
from mnemic.storage.database import Scoped


async def search(refining: Refining, query: str, after: date | None, before: date | None) -> str:
    """Core memories of the session's scope key that have one of the words, since and before a day."""
    words = clean_text(query)

    async def act(scoped: Scoped) -> list[LedgerEntry]:
        ids = await refinements.find(scoped, words, after=_midnight(after), before=_midnight(before))
        entries = {entry.id: entry for entry in await refinements.ledger(scoped)}
        return [entries[memory_id] for memory_id in ids if memory_id in entries]

    return told.found(refining.handles.numbered(await refining.read(act)))


async def consolidate(refining: Refining, numbers: Sequence[int], content: str) -> str:
    """Replaces memories by one that is not longer and as old as the oldest; the merged are soft-deleted with it.

    Raises:
        KnifeRefusedError: one of them may not be merged, or the text cannot take their place; nothing was written.
    """
    text = _written(content)

    async def act(scoped: Scoped, core: Core) -> tuple[list[LedgerEntry], UUID, list[int]]:
        merged = core.held(*numbers)
        _require_no_consolidation(merged)
        _require_one_person(merged)
        if len(merged) < 2:
            raise KnifeRefusedError(told.too_few())
        _require_shorter(text, merged)
        if lost := await core.given_up(merged, text):
            await core.take_away(lost)
        category = merged_category([entry.category for entry in merged], refining.resources.categories)
        new_id = await refinements.merge(scoped, merged, category, text)
        if new_id is None:
            raise KnifeRefusedError(told.twin(_number(refining, _twin(core, text))))
        return merged, new_id, lost

    (merged, new_id, lost), after = await refining.cut("merge", act)
    new = after.shown(new_id)
    lacking = missing_details([entry.content for entry in merged], text)
    before = sum(entry.tokens for entry in merged)
    return f"{told.consolidated(numbers, new.handle, before, new.tokens, lacking, lost)} {after.usage}"


async def update(refining: Refining, number: int, content: str) -> str:
    """Says one memory, or the consolidation, in other words and not in more; what is searched is embedded anew.

    Raises:
        KnifeRefusedError: it may not be changed, or the text cannot take its place; nothing was written.
        EmbeddingError: the new words could not be embedded; nothing was written.
    """
    text = _written(content)
    vector = await _vector(refining, number, text)

    async def act(scoped: Scoped, core: Core) -> tuple[LedgerEntry, list[int]]:
        (entry,) = core.held(number)
        if entry.content == text:
            raise KnifeRefusedError(told.same_text(number))
        _require_shorter(text, [entry])
        if twin := _twin(core, text, of=entry):
            raise KnifeRefusedError(told.twin(_number(refining, twin)))
        if lost := await core.given_up([entry], text):
            await core.take_away(lost)
        if not await refinements.rewrite(scoped, entry, text, model=refining.resources.embedder.name, vector=vector):
            raise KnifeRefusedError(told.unknown([number]))
        return entry, lost

    (entry, lost), after = await refining.cut("update", act)
    now, lacking = after.shown(entry.id), missing_details([entry.content], text)
    return f"{told.updated(number, entry.tokens, now.tokens, lacking, lost)} {after.usage}"


async def delete(refining: Refining, number: int) -> str:
    """Soft-deletes one memory; its source messages leave search with it, whatever the role may read.

    Raises:
        KnifeRefusedError: it may not go, or too many have gone; nothing was written.
    """

    async def act(scoped: Scoped, core: Core) -> int:
        (entry,) = core.held(number)
        _require_no_consolidation([entry])
        left = await core.take_away(await core.given_up([entry], ""))
        memory = await memories.one(scoped, entry.id)
        if memory is None:
            raise KnifeRefusedError(told.unknown([number]))
        await memories.see_every_category(scoped)
        await memories.forget(scoped, memory)
        await memories.see_categories(scoped, refining.allowed)  # the ledger that is read next is the role's
        return left

    left, after = await refining.cut("delete", act)
    return f"{told.deleted(number, left)} {after.usage}"


async def protect(refining: Refining, number: int) -> str:
    """Makes a memory constitutional, within the share of the target that may be.

    Raises:
        KnifeRefusedError: it is protected already, may not be, or does not fit; nothing was written.
    """
    settings = refining.settings
    most = protectable(settings.refinement_protected_percent, settings.refinement_target)

    async def act(scoped: Scoped, core: Core) -> UUID:
        (entry,) = core.held(number)
        _require_no_consolidation([entry])
        now = sum(other.tokens for other in core.entries.values() if other.protected)
        if now + entry.tokens > most:
            raise KnifeRefusedError(told.no_more_protected(number, now, most))
        if not await refinements.protect(scoped, entry):
            raise KnifeRefusedError(told.unknown([number]))
        return entry.id

    memory_id, after = await refining.cut("protect", act)
    after.shown(memory_id)
    return f"{told.protected(number)} {after.usage}"


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


def _written(content: str) -> str:
    """The text as it would be stored.

    Raises:
        KnifeRefusedError: there is none, it repeats itself, or it is longer than a memory may be.
    """
    text = clean_text(content)
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise KnifeRefusedError(told.too_large(MAX_TEXT_BYTES))
    if says_nothing(text) or is_degenerate(text):
        raise KnifeRefusedError(told.no_text())
    return text


def _require_no_consolidation(entries: Sequence[LedgerEntry]) -> None:
    if living := [entry.handle for entry in entries if entry.kind == "consolidation"]:
        raise KnifeRefusedError(told.is_consolidation(living[0]))


def _require_one_person(entries: Sequence[LedgerEntry]) -> None:
    # who has no account is told apart by name alone
    people = {(entry.subject_user_id, None if entry.subject_user_id else entry.subject.casefold()) for entry in entries}
    if len(people) > 1:
        raise KnifeRefusedError(told.different_people([entry.handle for entry in entries]))


def _require_shorter(text: str, replaced: Sequence[LedgerEntry]) -> None:
    most = sum(entry.tokens for entry in replaced)
    if count_tokens(text) > most:
        raise KnifeRefusedError(told.too_long(count_tokens(text), most))


def _twin(core: Core, text: str, *, of: LedgerEntry | None = None) -> LedgerEntry | None:
    """The living memory that stands in the way of this text; of an update, one of its kind."""
    for entry in core.entries.values():
        is_same_kind = of is None or (entry.kind, entry.subject_user_id) == (of.kind, of.subject_user_id)
        if entry.content == text and is_same_kind and (of is None or entry.id != of.id):
            return entry
    return None


def _number(refining: Refining, entry: LedgerEntry | None) -> int | None:
    """What the model calls it by; None for one that it was not shown, such as one of a conversation meanwhile."""
    return refining.handles.of(entry.id) if entry else None


async def _vector(refining: Refining, number: int, text: str) -> Any:
    """Of a memory's new words, before the operation, which holds a connection; None for what has no entry."""
    shown = refining.handles.shown(number)
    entries = await refining.read(refinements.ledger) if shown else []
    entry = next((entry for entry in entries if shown and entry.id == shown.id), None)
    if entry is None or entry.kind not in memories.INDEXED or entry.protected:
        return None
    indexed = search_text(entry.valid_from, entry.subject, text)
    return (await refining.resources.embedder.embed([indexed]))[0]
