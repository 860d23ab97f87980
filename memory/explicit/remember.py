"""Explicit writes of a fact, a core memory or a procedure, under the rules of formation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID, uuid4

from mnemic.memory.explicit.caller import Caller, ModelCaller, TrustedCaller
from mnemic.memory.explicit.texts import checked_procedure, checked_sentence, single_line, without_step_numbers
from mnemic.memory.runtime.agent_settings import agent_settings
from mnemic.memory.runtime.embedding import embed_to_store, with_agents_embedder
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.scoping import Place, ScopeResolver
from mnemic.memory.runtime.transcript import group_names
from mnemic.memory.text.bands import Band, band_of_pair, nearest_relations
from mnemic.memory.text.proof import find_quotations
from mnemic.memory.text.sharing import ShareRequest, is_typed
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts.explicit import refusals
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, NotRememberedError
from mnemic.state.explicit import ExplicitScope, ProcedureRequest, Remembered, RememberRequest
from mnemic.state.formation import NotShared, SimilarFact
from mnemic.state.identity import Identity, display_name, scope_key, split_scope_key
from mnemic.state.kinds import CONTEXT_KINDS, INDEXED_KINDS, Kind
from mnemic.state.records import Message, NewMemory
from mnemic.storage import history, memories, scopes
from mnemic.storage.transaction import ScopedTransaction

#: Reasons of operations that count as writes of a session.
REMEMBER_REASONS: Final = ("remember", "remember_procedure", "correct")
_PROCEDURAL: Final = "procedural"


@dataclass(frozen=True, kw_only=True)
class PreparedMemory:
    """A memory to store, with its vectors and the resources of the agent's embedder."""

    resources: Resources
    memory: NewMemory
    #: The vector of the memory; empty for a kind that is not searched.
    vectors: Sequence[Vector | None]


async def remember(resources: Resources, identity: Identity, request: RememberRequest, caller: Caller) -> Remembered:
    """Store a fact or a core memory, or return the memory with the same text.

    A fact near a stored one is added and related to it. The result lists the facts that it may replace.

    Args:
        resources: the open database and models.
        identity: identity of the run; its role limits the categories.
        request: the text and its values; a wider scope than the user's counts only through the rules of sharing.
        caller: the trusted host, or a model.

    Raises:
        CategoryRefusedError: if the role may not write into this category.
        InvalidInputError: if the text breaks a rule of memory texts.
        NotRememberedError: if a model has reached its session's limit of the day.
        EmbeddingError: if a setting of the embedder is wrong; nothing was written.
    """
    allowlist = resources.categories.of_role(identity.role)
    text = single_line(request.content)
    if isinstance(caller, TrustedCaller):
        text = checked_sentence(text, request.kind)
    _require_writable(resources, identity, request)
    _require_group(identity, request.scope, caller)
    scope = request.scope
    if request.kind == "core" and isinstance(caller, ModelCaller):
        # a core memory of group or agent is in the prompts of other people, so no conversation may write one
        scope = "user"
    draft = ShareRequest(scope, text, request.category, request.private)
    new, obstacle = await _new_memory(resources, identity, draft, request.kind, caller)
    new = replace(new, importance=request.importance)
    remembered = await _store(resources, identity, new, caller, allowlist.categories)
    return replace(remembered, not_shared=obstacle)


async def remember_procedure(
    resources: Resources, identity: Identity, request: ProcedureRequest, caller: Caller
) -> Remembered:
    """Store a title and numbered steps, or return the procedure with the same text.

    A role that may not read procedures may write one: a supervisor stores it for an executor.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
        InvalidInputError: if the title or a step is empty, or the whole is too long.
        NotRememberedError: if a model has reached its session's limit of the day.
        EmbeddingError: if a setting of the embedder is wrong; nothing was written.
    """
    allowed = resources.categories.of_role(identity.role).categories
    _require_group(identity, request.scope, caller)
    draft = ShareRequest(request.scope, checked_procedure(request), _PROCEDURAL, private=False)
    new, obstacle = await _new_memory(resources, identity, draft, "procedure", caller)
    remembered = await _store(resources, identity, replace(new, importance=3), caller, [*allowed, _PROCEDURAL])
    return replace(remembered, not_shared=obstacle)


def _require_writable(resources: Resources, identity: Identity, request: RememberRequest) -> None:
    writable = resources.categories.writable(identity.role)
    if request.category not in writable:
        raise CategoryRefusedError(refusals.not_writable(request.category, writable))
    if request.kind == "core" and not resources.categories.of_role(identity.role).standing:
        raise CategoryRefusedError(refusals.NO_CORE)


def _require_group(identity: Identity, scope: ExplicitScope, caller: Caller) -> None:
    """Refuse a host's request for the scope `group` without one group; a model's memory becomes the user's then."""
    groups = len(identity.group_ids)
    if scope == "group" and groups != 1 and isinstance(caller, TrustedCaller):
        raise InvalidInputError(refusals.no_single_group(groups))


async def _store(
    resources: Resources, identity: Identity, new: NewMemory, caller: Caller, categories: Sequence[str]
) -> Remembered:
    """Store a memory, or return the one with the same text.

    The operation holds the agent's lock, so that of two equal writes at once one stores.

    Args:
        resources: the open database and models.
        identity: identity of the run; its role limits the categories.
        new: the memory.
        caller: the trusted host, or a model.
        categories: categories that the role may see; no other memory counts as a duplicate or as near.

    Raises:
        InvalidInputError: if the agent keeps no memories of this kind.
        NotRememberedError: if a model has reached its session's limit of the day.
        EmbeddingError: if a setting of the embedder is wrong; nothing was written.
    """
    prepared = await prepare(resources, identity, new)
    reason = "remember_procedure" if new.kind == "procedure" else "remember"

    async def store_in(tx: ScopedTransaction) -> Remembered:
        await tx.begin_operation(reason)
        await scopes.ensure_agent(tx)
        if isinstance(caller, ModelCaller):
            await _require_below_limit(resources, tx)
        return await store_unless_known(tx, prepared)

    with resources.events.timed(identity, "explicit", "create") as outcome:
        remembered = await resources.database.write(identity, store_in, categories=categories)
        outcome.memory_id, outcome.category = remembered.id, new.category
        if remembered.known:
            outcome.status = "skipped"
    resources.write_events()
    return remembered


async def _require_below_limit(resources: Resources, tx: ScopedTransaction) -> None:
    """Limit the damage of a conversation that orders a model about."""
    limit = resources.settings.remembers_per_session_and_day
    if await history.count_today(tx, *REMEMBER_REASONS) >= limit:
        raise NotRememberedError(refusals.limit_reached(limit, "kept"))


async def prepare(resources: Resources, identity: Identity, new: NewMemory) -> PreparedMemory:
    """Return a memory with its vector, for `store_unless_known`.

    Raises:
        EmbeddingError: if a setting of the embedder is wrong.
    """
    texts = [new.search_text] if new.kind in INDEXED_KINDS else []
    resources = await with_agents_embedder(resources, identity)
    vectors = await embed_to_store(resources, texts, is_awaited=True)
    return PreparedMemory(resources=resources, memory=new, vectors=vectors)


async def store_unless_known(
    tx: ScopedTransaction, prepared: PreparedMemory, *, instead_of: UUID | None = None
) -> Remembered:
    """Store a memory, or return the one with the same text.

    Args:
        tx: the transaction of the operation.
        prepared: the memory.
        instead_of: id of a memory that the new one replaces; it does not count as a duplicate.

    Raises:
        InvalidInputError: if the agent keeps no memories of this kind.
    """
    resources, new = prepared.resources, prepared.memory
    await _require_kept_kind(resources, tx, new.kind)
    near, bands = await _near_facts(tx, prepared, instead_of)
    known_id = next((old.id for old in near if bands[old.id] == "auto"), None)
    if known_id is None:
        memory = replace(new, relations=nearest_relations(near, resources.embedder.bands, resources.settings))
        vectors = dict(zip([new.id], prepared.vectors, strict=False))
        if await memories.insert(tx, [memory], model=resources.embedder.name, vectors=vectors, run_id=None):
            replaceable = tuple(old for old in near if bands[old.id] == "check" and not old.protected)
            return Remembered(id=new.id, scope_key=new.scope_key, near=replaceable)
        duplicate = (await memories.find_exact_duplicates(tx, [new])).get(new.id)
        known_id = duplicate.id if duplicate else None
    if known_id and new.private:
        await memories.make_private(tx, known_id)
    return Remembered(id=known_id, scope_key=new.scope_key, known=True)


async def _require_kept_kind(resources: Resources, tx: ScopedTransaction, kind: Kind) -> None:
    """Raise InvalidInputError if the agent's settings switch off recall, and so formation, of this kind."""
    switch = "always_in_context" if kind in CONTEXT_KINDS else "rag"
    settings = resources.settings.overridden(await scopes.agent_settings(tx))
    if not getattr(settings, switch):
        raise InvalidInputError(refusals.switched_off(kind, switch))


async def _near_facts(
    tx: ScopedTransaction, prepared: PreparedMemory, instead_of: UUID | None
) -> tuple[list[SimilarFact], dict[UUID, Band]]:
    """Return the stored facts near a new one, nearest first, and their bands; other kinds are unique by their text."""
    new, embedder = prepared.memory, prepared.resources.embedder
    if new.kind != "fact":
        return [], {}
    most = prepared.resources.settings.neighbours
    similar = await memories.find_nearest(tx, [new.scope_key], prepared.vectors, model=embedder.name, limit=most)
    near = [old for old in similar if old.id != instead_of]
    bands: dict[UUID, Band] = {}
    for old in near:
        bands[old.id] = band_of_pair(new.content, old.content, old.similarity, embedder.bands)
    return near, bands


async def _new_memory(
    resources: Resources, identity: Identity, draft: ShareRequest, kind: Kind, caller: Caller
) -> tuple[NewMemory, NotShared | None]:
    """Return the memory with the requested scope, or with the user's and the reason against the requested one.

    Raises:
        InvalidInputError: if it would be of no user, or its text breaks a rule of memory texts.
    """
    fallback = scope_key("user", identity.user_id) if identity.user_id else ""
    place = await permitted_place(resources, identity, draft, caller, fallback=fallback)
    if not place.scope_key:
        raise InvalidInputError(refusals.NO_OWNER)
    scope, owner = split_scope_key(place.scope_key)
    # the user's own sentence is shared unchanged
    text = place.said or draft.text
    if not place.said and kind != "procedure":
        text = checked_sentence(text, kind)
    new = replace(
        new_memory(kind, draft.category, place.scope_key, text, resources.now(identity)),
        said=place.said,
        subject_user_id=owner if scope == "user" else None,
        private=draft.private,
        tags=place.tags,
        source_session_id=identity.session_id,
    )
    return new, place.not_shared


async def permitted_place(
    resources: Resources, identity: Identity, draft: ShareRequest, caller: Caller, *, fallback: str
) -> Place:
    """Return the group's or agent's scope key if the draft names it and the rules allow it, else the fallback.

    A model's text is shared only if it is a sentence that the user typed, and then with the words of that sentence.
    """
    settings = resources.settings if draft.scope == "user" else await agent_settings(resources, identity)
    unnumbered = draft._replace(text=without_step_numbers(draft.text))
    said: str | None
    if isinstance(caller, TrustedCaller):
        # one message for each line, since patterns such as `system:` match at the beginning of a line
        batch, said = _typed_lines(unnumbered.text, identity, resources), draft.text
    else:
        batch = [message for message in caller.conversation if is_typed(message, {identity.user_id})]
        quotations = find_quotations(draft.text, batch)
        said = quotations[0].said if quotations else None
    resolver = ScopeResolver(batch, identity, group_names(identity, {}), settings, resources.categories.personal)
    return resolver.resolve(unnumbered, batch, said, fallback=fallback)


def _typed_lines(text: str, identity: Identity, resources: Resources) -> list[Message]:
    """Return each line of a text as a message of the identity's user."""
    empty = Message(
        id=uuid4(),
        session_id="",
        role="user",
        author=display_name(identity.user_id or identity.agent_id),
        user_id=identity.user_id,
        content="",
        said_at=resources.now(identity),
    )
    return [replace(empty, content=line) for line in text.splitlines()]
