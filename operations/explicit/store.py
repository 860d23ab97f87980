"""Explicit writes: who may share a text, and the one operation that stores it unless it is known."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from mnemic.models.embedders import Vector
from mnemic.operations.formation.decisions import band_of_fact, related
from mnemic.operations.formation.drafts import Draft, ScopeResolver
from mnemic.operations.messages.speakers import group_name, own_words
from mnemic.operations.run.resources import Resources
from mnemic.policy.text.shape import display_name, search_text
from mnemic.state.errors import InvalidInputError, NotRememberedError
from mnemic.state.formation import Remembered, SimilarFact
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import Message, NewMemory
from mnemic.state.settings import Settings
from mnemic.storage import history, memories, scopes
from mnemic.storage.transaction import ScopedTransaction

#: Ours, and nothing that anybody would have said.
_STEP_NUMBER = re.compile(r"^\d+\. ", re.MULTILINE)
#: Operations that write what somebody asked for, as history names them.
REASONS: Final = ("remember", "remember_procedure")
#: The conversation that a model has before it; None: no model speaks, the text is the caller's own word.
Conversation = Sequence[Message] | None


async def store_explicit(
    resources: Resources,
    identity: Identity,
    draft: Draft,
    *,
    kind: Kind,
    conversation: Conversation,
    categories: Sequence[str],
) -> Remembered:
    """Stores a text that is fit to be a memory, or names the one that says the same.

    What is near is looked up within the operation, which holds the agent's head: of equal writes at once, one stores.

    Args:
        draft: the text, and the scope it is wanted in.
        kind: what it becomes.
        conversation: see `Conversation`.
        categories: those that the role may know of: no other memory counts as known or near.

    Raises:
        InvalidInputError: there is nobody whose memory it could be, or the agent has that half of memory switched off.
        EmbeddingError: it could not be embedded; nothing was written.
    """
    new = _memory(identity, draft, kind, conversation, datetime.now(UTC))
    vectors = await resources.embedder.embed([new.search_text]) if kind in memories.INDEXED else []

    async def act(scoped: ScopedTransaction) -> Remembered:
        await scoped.begin_operation(_reason(kind))
        await scopes.enter_agent(scoped)
        if conversation is not None:
            await _require_room(resources.settings, scoped)
        _require_switched_on(resources.settings.overridden(await scopes.agent_settings(scoped)), kind)
        return await _store(resources, scoped, new, vectors)

    return await resources.database.write(identity, act, categories=categories)


def _reason(kind: Kind) -> str:
    return "remember_procedure" if kind == "procedure" else "remember"


async def _require_room(settings: Settings, scoped: ScopedTransaction) -> None:
    """A conversation that orders the memory about does bounded damage; what the host itself keeps is its own affair."""
    most = settings.remembers_per_session_and_day
    if await history.done_today(scoped, *REASONS) >= most:
        raise NotRememberedError(f"this session has had {most} memories kept today, and that is the most")


def _require_switched_on(settings: Settings, kind: Kind) -> None:
    """Off also stops forming; what nobody will be shown is not taken for remembered."""
    name = "always_in_context" if kind == "core" else "rag"
    if not getattr(settings, name):
        raise InvalidInputError(f"this agent keeps no memory of the kind {kind}: its setting {name} is off")


async def _store(
    resources: Resources, scoped: ScopedTransaction, new: NewMemory, vectors: Sequence[Vector]
) -> Remembered:
    near = await _near(resources, scoped, new, vectors)
    bands = {old.id: band_of_fact(new.content, old, resources.embedder.bands) for old in near}
    if same := next((old for old in near if bands[old.id] == "auto"), None):
        return await _known(scoped, new, same.id)
    memory = replace(new, relations=related(near, resources.embedder.bands, resources.settings))
    vector = dict(zip([new.id], vectors, strict=False))
    if not await memories.insert(scoped, [memory], model=resources.embedder.name, vectors=vector, run_id=None):
        twin = (await memories.twins(scoped, [new])).get(new.id)
        return await _known(scoped, new, twin.id if twin else None)
    await scopes.touch(scoped, [new.scope_key])
    replaceable = tuple(old for old in near if bands[old.id] == "check" and not old.protected)
    return Remembered(id=new.id, scope_key=new.scope_key, near=replaceable)


async def _known(scoped: ScopedTransaction, new: NewMemory, memory_id: UUID | None) -> Remembered:
    """What is said in confidence now is private from now on."""
    if memory_id and new.private:
        await memories.make_private(scoped, memory_id)
    return Remembered(id=memory_id, scope_key=new.scope_key, known=True)


async def _near(
    resources: Resources, scoped: ScopedTransaction, new: NewMemory, vectors: Sequence[Vector]
) -> list[SimilarFact]:
    """Only facts are compared by meaning; every kind is unique by its text."""
    if new.kind != "fact":
        return []
    most = resources.settings.neighbours
    return await memories.similar(scoped, [new.scope_key], vectors, model=resources.embedder.name, most=most)


def _memory(identity: Identity, draft: Draft, kind: Kind, conversation: Conversation, now: datetime) -> NewMemory:
    key = _scope_key(identity, draft, conversation, now)
    scope, owner = split_scope_key(key)
    subject = display_name(owner)
    return NewMemory(
        id=uuid4(),
        kind=kind,
        scope_key=key,
        category=draft.category,
        content=draft.text,
        search_text=search_text(now, subject, draft.text),
        subject=subject,
        subject_user_id=owner if scope == "user" else None,
        importance=draft.importance,
        private=draft.private,
        provenance=draft.provenance,
        valid_from=now,
        source_session_id=identity.session_id,
    )


def _scope_key(identity: Identity, draft: Draft, conversation: Conversation, now: datetime) -> str:
    """The user's scope key, or the wider one that is wanted where the gate of formation lets it pass."""
    own = scope_key("user", identity.user_id) if identity.user_id else ""
    batch = _own_word(identity, draft.text, now) if conversation is None else conversation
    resolver = ScopeResolver(batch, identity, group_name(identity, {}), has_read_more=conversation is not None)
    key = resolver.resolve(draft._replace(text=_STEP_NUMBER.sub("", draft.text)), own_words(batch), fallback=own)
    if not key:
        raise InvalidInputError("a memory belongs to a user unless it may be shared: give the identity a user_id")
    return key


def _own_word(identity: Identity, text: str, now: datetime) -> list[Message]:
    """What the caller says, line by line: whether it is personal or gives orders is looked at, whose word it is not."""
    user = identity.user_id
    return [
        Message(
            id=uuid4(),
            session_id=identity.session_id or "",
            role="user",
            author=display_name(user or identity.agent_id),
            user_id=user,
            content=line,
            said_at=now,
        )
        for line in text.splitlines()
    ]
