"""Explicit corrections: a memory is closed and a new one takes its place, in one operation that `undo` reverses."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from mnemic.memory.explicit.caller import Caller, ModelCaller
from mnemic.memory.explicit.forget import FORGET_REASONS
from mnemic.memory.explicit.remember import (
    REMEMBER_REASONS,
    PreparedMemory,
    permitted_place,
    prepare,
    store_unless_known,
)
from mnemic.memory.explicit.texts import checked_procedure, checked_sentence, single_line
from mnemic.memory.runtime.access import require_visible, visible_memories
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import require_text
from mnemic.memory.text.sharing import ShareRequest
from mnemic.prompts.explicit import refusals
from mnemic.state.checking import validate
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, NotCorrectedError, RefusedCallError
from mnemic.state.explicit import Corrected, ProcedureRequest
from mnemic.state.identity import Identity, is_shared, split_scope_key
from mnemic.state.kinds import CONTEXT_KINDS
from mnemic.state.records import Memory, NewMemory, Supersession
from mnemic.storage import history, memories
from mnemic.storage.transaction import ScopedTransaction

_REASON: Final = "correct"


async def correct(resources: Resources, identity: Identity, memory_id: UUID, content: str, caller: Caller) -> Corrected:
    """Supersede a memory by a new one of the same kind, scope key, subject and category.

    The old one keeps its words, dates and history. Unabsorbed reflections that rest on it alone are deleted with it,
    and the next consolidation learns of it. An active memory with the new text takes the place instead. If the old one
    has that text, nothing is written. A shared memory stays shared only if the new text may be shared.

    Args:
        resources: the open database and models.
        identity: identity of the run; its role limits the categories.
        memory_id: the memory to correct.
        content: the new text; of a procedure its title and a line for each step.
        caller: the trusted host, or a model.

    Raises:
        InvalidInputError: if there is no such memory, the text breaks a rule, or the agent keeps no such kind.
        NotCorrectedError: if it is protected, closed, derived, absorbed, or shared while the text may not be; or the
            session's limit of the day is reached.
        CategoryRefusedError: if the role has no allowlist, or may not write into this category.
        EmbeddingError: if a setting of the embedder is wrong; nothing was written.
        ConcurrentChangeError: if the memory was changed meanwhile; nothing was written.
    """
    allowlist = resources.categories.of_role(identity.role)
    visible = await visible_memories(resources, identity, [memory_id])
    old = require_visible(visible[0] if visible else None, allowlist)
    _require_correctable(resources, identity, old)
    text = _checked_text(content, old, caller)
    if text == old.content:
        return Corrected(id=old.id, old_id=old.id, scope_key=old.scope_key, known=True)
    now = resources.now(identity)
    new = await _successor(resources, identity, old, text, caller, now)
    prepared = await prepare(resources, identity, new)

    async def correct_in(tx: ScopedTransaction) -> Corrected:
        await tx.begin_operation(_REASON)
        current = require_visible(await memories.find(tx, memory_id), allowlist)
        _require_correctable(resources, identity, current)
        await _require_below_limits(resources, tx, caller)
        return await _supersede(tx, old, prepared, until=now)

    with resources.events.timed(identity, "explicit", "update") as outcome:
        corrected = await resources.database.write(identity, correct_in, categories=allowlist.categories)
        outcome.memory_id, outcome.category = corrected.id, new.category
    resources.write_events()
    return corrected


async def correctable(resources: Resources, identity: Identity, memory_ids: Iterable[UUID]) -> list[Memory]:
    """Return the memories of these ids that `correct` accepts if the text can be kept, each once.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    accepted: list[Memory] = []
    for memory in await visible_memories(resources, identity, memory_ids):
        with suppress(RefusedCallError):
            _require_correctable(resources, identity, memory)
            accepted.append(memory)
    return accepted


def _require_correctable(resources: Resources, identity: Identity, memory: Memory) -> None:
    if memory.protected:
        raise NotCorrectedError(refusals.PROTECTED)
    if memory.kind in refusals.DERIVED:
        raise NotCorrectedError(refusals.DERIVED[memory.kind])
    if memory.state == "absorbed":
        raise NotCorrectedError(refusals.ABSORBED)
    if memory.state != "active":
        raise NotCorrectedError(refusals.closed(memory.state, memory.superseded_by, "correct"))
    # a role that reads procedures may write them
    if memory.kind != "procedure" and memory.category not in resources.categories.writable(identity.role):
        raise CategoryRefusedError(refusals.category_of_memory(memory.category))


async def _require_below_limits(resources: Resources, tx: ScopedTransaction, caller: Caller) -> None:
    """Apply the limits of forgets and of writes, since a correction counts as both."""
    settings, is_model = resources.settings, isinstance(caller, ModelCaller)
    if is_model or tx.identity.session_id:
        await _require_below(tx, settings.forgets_per_session_and_day, FORGET_REASONS, "forgotten")
    if is_model:
        await _require_below(tx, settings.remembers_per_session_and_day, REMEMBER_REASONS, "kept")


async def _require_below(tx: ScopedTransaction, limit: int, reasons: tuple[str, ...], done: str) -> None:
    if await history.count_today(tx, *reasons) >= limit:
        raise NotCorrectedError(refusals.limit_reached(limit, done))


async def _supersede(tx: ScopedTransaction, old: Memory, prepared: PreparedMemory, until: datetime) -> Corrected:
    new = prepared.memory
    stored = await store_unless_known(tx, prepared, instead_of=old.id)
    successor = stored.id
    if successor is None:
        # the duplicate is of a category that the role may not read
        await memories.allow_categories(tx, None)
        successor = (await memories.find_exact_duplicates(tx, [new]))[new.id].id
        if new.private:
            await memories.make_private(tx, successor)
    await memories.supersede(tx, [Supersession(old.id, old.version, successor, until=until)])
    await memories.allow_categories(tx, None)
    await memories.forget_derived(tx, old.id)
    return Corrected(id=stored.id, old_id=old.id, scope_key=old.scope_key, known=stored.known)


def _checked_text(content: str, old: Memory, caller: Caller) -> str:
    if old.kind == "procedure":
        return _checked_procedure(content)
    if is_shared(old.scope_key) and isinstance(caller, ModelCaller):
        # it is compared with the sentences that the user typed, and shared unchanged
        return single_line(content)
    return checked_sentence(content, old.kind)


def _checked_procedure(content: str) -> str:
    lines = [line for line in require_text(content, what="content").splitlines() if line.strip()]
    if len(lines) < 2:
        raise InvalidInputError(refusals.NO_STEPS)
    request = {"title": lines[0].strip(), "steps": lines[1:]}
    return checked_procedure(validate(ProcedureRequest, request, strict=None))


async def _successor(  # noqa: PLR0913 - the caller has them all at hand
    resources: Resources, identity: Identity, old: Memory, text: str, caller: Caller, now: datetime
) -> NewMemory:
    """Return the new memory, with the time of the correction, or of an episode the time of the event."""
    said = None
    if is_shared(old.scope_key):
        said = await _shareable_sentence(resources, identity, old, text, caller)
        text = said or text
    occurred_at = old.valid_from if old.kind == "episode" else now
    return replace(
        new_memory(old.kind, old.category, old.scope_key, text, occurred_at, old.subject),
        subject_user_id=old.subject_user_id,
        importance=old.importance,
        private=old.private,
        said=said,
        source_session_id=identity.session_id,
    )


async def _shareable_sentence(
    resources: Resources, identity: Identity, old: Memory, text: str, caller: Caller
) -> str | None:
    """Return the typed sentence for the new text of a shared memory.

    Raises:
        NotCorrectedError: if the text may not have the old one's scope key.
    """
    scope = split_scope_key(old.scope_key)[0]
    if old.kind in CONTEXT_KINDS and isinstance(caller, ModelCaller):
        # it is in the prompts of other people, so no conversation may write it
        scope = "user"
    draft = ShareRequest(scope, text, old.category, private=old.private)
    place = await permitted_place(resources, identity, draft, caller, fallback="")
    if place.scope_key != old.scope_key:
        raise NotCorrectedError(refusals.SHARED_TO_CORRECT)
    return place.said
