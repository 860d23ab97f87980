"""What somebody corrects: a memory is closed and another takes its place, in one operation that `undo` takes back."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from mnemic.memory.explicit.remember import (
    REMEMBERING,
    Conversation,
    checked_procedure,
    checked_sentence,
    permitted_place,
    single_line,
    store_unless_known,
)
from mnemic.memory.governance.retention import FORGETTING, PROTECTED, known_memories, require_known
from mnemic.memory.runtime.embedding import embed_to_store, with_agents_embedder
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import require_text
from mnemic.memory.text.sharing import Draft
from mnemic.state.attribution import is_shared
from mnemic.state.checking import validate
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, NotCorrectedError, RefusedCallError
from mnemic.state.formation import Corrected, ProcedureRequest
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import Memory, NewMemory, Supersession
from mnemic.storage import history, memories
from mnemic.storage.transaction import ScopedTransaction

_REASON: Final = "correct"
#: Texts that are written from others and not by anybody's word.
_WRITTEN: Final[dict[Kind, str]] = {
    "consolidation": "this is the consolidation of everything: remember what is right as a core memory beside it",
    "journal": "this tells what a refinement did, which nobody rewrites: undo the refinement where it went wrong",
}
_ABSORBED: Final = "this has gone into a consolidation: remember what is right as a core memory beside that"
_CLOSED: Final = "this memory is no longer in force: correct the one that took its place, or remember what is right"
_SHARED: Final = (
    "this memory is shared with others, and the new text may not be: that takes the user's own words, with nothing "
    "personal or private in them. Remember it for this user alone"
)


async def correct(
    resources: Resources, identity: Identity, memory_id: UUID, content: str, conversation: Conversation = None
) -> Corrected:
    """Supersedes a memory by one that says this in the same place: of its kind, scope key, subject and category.

    The old one keeps its words, dates and history and is shown no more. With a fact go the unabsorbed reflections that
    rest on its words alone; the next consolidation is told of it. Where a living memory says the same as the new text,
    that takes the place; where the old one itself does, nothing is written. What is shared stays so only if the new
    text passes the gate that `remember` has for it.

    Content and conversation are as for `remember`; of a procedure the content is its title and a line for each step.
    Unknown ids, foreign ones and those that the role may not know of are answered alike.

    Raises:
        InvalidInputError: no such memory, the text cannot be kept as it is written, or that half of memory is off.
        NotCorrectedError: it is protected, closed, a consolidation, absorbed in one, or shared while the text may not
            be; or the session has had as many remembered or forgotten as it may today.
        CategoryRefusedError: the role has no allowlist, or may not write into this category.
        EmbeddingError: a setting of the embedder is wrong; nothing was written.
        ConcurrentChangeError: the memory was changed meanwhile; nothing was written.
    """
    allowlist = resources.categories.of_role(identity.role)
    known = await known_memories(resources, identity, [memory_id])
    old = require_known(known[0] if known else None, allowlist)
    _require_correctable(resources, identity, old)
    text = _checked(content, old, conversation)
    if text == old.content:
        return Corrected(id=old.id, old_id=old.id, scope_key=old.scope_key, known=True)
    now = resources.now(identity)
    new = await _successor(resources, identity, old, text, now, conversation)
    texts = [new.search_text] if new.kind in memories.INDEXED else []
    resources = await with_agents_embedder(resources, identity)
    vectors = await embed_to_store(resources, texts, is_awaited=True)

    async def act(scoped: ScopedTransaction) -> Corrected:
        await scoped.begin_operation(_REASON)
        found = require_known(await memories.find(scoped, memory_id), allowlist)
        _require_correctable(resources, identity, found)
        await _require_left(resources, scoped, by_model=conversation is not None)
        kept = await store_unless_known(resources, scoped, new, vectors, instead_of=old.id)
        successor = kept.id
        if successor is None:  # one of a category that the role may not read stands there
            await memories.see_categories(scoped, None)
            successor = (await memories.twins(scoped, [new]))[new.id].id
            if new.private:
                await memories.make_private(scoped, successor)
        await memories.supersede(scoped, [Supersession(old.id, old.version, successor, until=now)])
        await memories.see_categories(scoped, None)
        await memories.forget_drawn(scoped, old.id)
        return Corrected(id=kept.id, old_id=old.id, scope_key=old.scope_key, known=kept.known)

    with resources.events.timed(identity, "explicit", "update") as outcome:
        corrected = await resources.database.write(identity, act, categories=allowlist.categories)
        outcome.memory_id, outcome.category = corrected.id, new.category
    resources.write_events()
    return corrected


async def correctable(resources: Resources, identity: Identity, memory_ids: Iterable[UUID]) -> list[Memory]:
    """Those of these memories that `correct` would take, if the text can be kept in their place; each once.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    found = []
    for memory in await known_memories(resources, identity, memory_ids):
        with suppress(RefusedCallError):
            _require_correctable(resources, identity, memory)
            found.append(memory)
    return found


def _require_correctable(resources: Resources, identity: Identity, memory: Memory) -> None:
    if memory.protected:
        raise NotCorrectedError(PROTECTED)
    if memory.kind in _WRITTEN:
        raise NotCorrectedError(_WRITTEN[memory.kind])
    if memory.state != "active":
        raise NotCorrectedError(_ABSORBED if memory.state == "absorbed" else _CLOSED)
    # whoever may read procedures may write them
    if memory.kind != "procedure" and memory.category not in resources.categories.writable(identity.role):
        raise CategoryRefusedError(
            f"this role may not write into the category {memory.category}: forget the memory where it is wrong"
        )


async def _require_left(resources: Resources, scoped: ScopedTransaction, *, by_model: bool) -> None:
    """A correction is both something remembered and something forgotten, and is bounded as both are."""
    settings = resources.settings
    bounds = [
        (by_model or scoped.identity.session_id, settings.forgets_per_session_and_day, FORGETTING, "forgotten"),
        (by_model, settings.remembers_per_session_and_day, REMEMBERING, "kept"),
    ]
    for is_bounded, most, reasons, done in bounds:
        if is_bounded and await history.done_today(scoped, *reasons) >= most:
            raise NotCorrectedError(f"this session has had {most} memories {done} today, and that is the most")


def _checked(content: str, old: Memory, conversation: Conversation) -> str:
    if old.kind != "procedure":
        # a sentence that its user typed is shared as it stands
        is_quotation = conversation is not None and is_shared(old.scope_key)
        return single_line(content) if is_quotation else checked_sentence(content, old.kind)
    title, *steps = [line for line in require_text(content, what="content").splitlines() if line.strip()]
    if not steps:
        raise InvalidInputError("a procedure is written as its title and, below it, a line for each step")
    return checked_procedure(validate(ProcedureRequest, {"title": title.strip(), "steps": steps}, strict=None))


async def _successor(
    resources: Resources, identity: Identity, old: Memory, text: str, now: datetime, conversation: Conversation
) -> NewMemory:
    said = None
    if is_shared(old.scope_key):
        scope = split_scope_key(old.scope_key)[0]
        # what stands in everybody's every prompt is no matter of one conversation
        wanted = "user" if old.kind in memories.STANDING and conversation is not None else scope
        draft = Draft(wanted, text, old.category, private=old.private)
        place = await permitted_place(resources, identity, draft, conversation, fallback="")
        if place.scope_key != old.scope_key:
            raise NotCorrectedError(_SHARED)
        said = place.said
        text = said or text
    dated = old.valid_from if old.kind == "episode" else now  # it happened when it happened
    return replace(
        new_memory(old.kind, old.category, old.scope_key, text, dated, old.subject),
        subject_user_id=old.subject_user_id,
        importance=old.importance,
        private=old.private,
        said=said,
        source_session_id=identity.session_id,
    )
