"""What somebody asks to remember: a fact, a core memory, a procedure; under every rule that formation obeys."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID, uuid4

from mnemic.memory.formation.builder import Place, ScopeResolver
from mnemic.memory.formation.decisions import related
from mnemic.memory.runtime.agent_settings import agent_settings
from mnemic.memory.runtime.embedding import embed_to_store, with_agents_embedder
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.transcript import group_names
from mnemic.memory.text.bands import band_of_pair
from mnemic.memory.text.proof import find_quotations
from mnemic.memory.text.questions import only_asks
from mnemic.memory.text.shape import require_text
from mnemic.memory.text.sharing import Draft, is_typed
from mnemic.memory.text.writing import check_text, is_data
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts.tools import PROBLEMS
from mnemic.state.errors import CategoryRefusedError, InvalidInputError, NotRememberedError
from mnemic.state.formation import ProcedureRequest, Remembered, RememberRequest, SimilarFact
from mnemic.state.identity import Identity, display_name, scope_key, split_scope_key
from mnemic.state.kinds import Kind
from mnemic.state.records import Message, NewMemory
from mnemic.storage import history, memories, scopes
from mnemic.storage.transaction import ScopedTransaction

#: The conversation that a model has before it; None: no model speaks, the text is the caller's own word.
Conversation = Sequence[Message] | None

#: Reasons of operations that count among what a session has remembered.
REMEMBERING: Final = ("remember", "remember_procedure", "correct")

#: As long as a reflection; each one is in every prompt.
_MAX_CORE_CHARS: Final = 500
_PROCEDURAL: Final = "procedural"
#: `1.`, `2)`, `Step 3:` or a bullet, which the numbers here replace.
_MARK = re.compile(r"^(?:step\s+)?\d{1,2}\s?[.):]\s+|^[-*•]\s+", re.IGNORECASE)
#: Ours, and nothing that anybody would have said.
_STEP_NUMBER = re.compile(r"^\d+\. ", re.MULTILINE)


async def remember(
    resources: Resources, identity: Identity, request: RememberRequest, conversation: Conversation = None
) -> Remembered:
    """Stores a fact or a core memory, or names the memory that says the same.

    A wider scope than the user's counts only through the rules of formation (`policy.formation.sharing`); else it is
    the user's own. A fact near a living one is added and related to it, for no model decides here: the answer names
    what it may replace, by `correct`.

    Args:
        conversation: where a model asks, whose word counts only as far as the run's user typed the same. None: it
            is the caller's own word.

    Raises:
        CategoryRefusedError: the role may not write into this category.
        InvalidInputError: the text is not written as a memory has to be; the message says how.
        EmbeddingError: a setting of the embedder is wrong; nothing was written.
    """
    allowlist, writable = resources.categories.of_role(identity.role), resources.categories.writable(identity.role)
    if request.category not in writable:  # nobody writes where they may not look
        raise CategoryRefusedError(
            f"not a category that this role may write: it may choose {', '.join(writable) or 'none'}"
        )
    if request.kind == "core" and not allowlist.standing:
        raise CategoryRefusedError("this role does not read core memories and may not write them: choose the kind fact")
    text = single_line(request.content)
    if conversation is None:
        text = checked_sentence(text, request.kind)
    draft = Draft(
        # what stands in everybody's every prompt is no matter of one conversation
        scope="user" if request.kind == "core" and conversation is not None else request.scope,
        text=text,
        category=request.category,
        private=request.private,
    )
    new = await _memory(resources, identity, draft, request.kind, conversation)
    # a sentence that its user typed is shared as it stands
    content = new.content if new.said else checked_sentence(new.content, new.kind)
    new = replace(new, content=content, importance=request.importance)
    return await _store(resources, identity, new, conversation, allowlist.categories)


async def remember_procedure(
    resources: Resources, identity: Identity, request: ProcedureRequest, conversation: Conversation = None
) -> Remembered:
    """Stores the title and, below it, a line for each step; or names the procedure that says the same.

    Whoever may not read procedures may write one all the same: a supervisor keeps what an executor will need.

    Args:
        conversation: as for `remember`.

    Raises:
        CategoryRefusedError: the role has no allowlist.
        InvalidInputError: the title or a step says nothing, or the whole is too long.
        EmbeddingError: a setting of the embedder is wrong; nothing was written.
    """
    allowed = resources.categories.of_role(identity.role).categories
    draft = Draft(request.scope, checked_procedure(request), _PROCEDURAL, private=False)
    new = await _memory(resources, identity, draft, "procedure", conversation)
    return await _store(resources, identity, replace(new, importance=3), conversation, [*allowed, _PROCEDURAL])


def checked_sentence(content: str, kind: Kind) -> str:
    """The text of a memory that is no procedure.

    Raises:
        InvalidInputError: it is not written as a memory has to be; the message says how.
    """
    given = single_line(content)
    if only_asks(given):
        raise InvalidInputError(f"content cannot be kept as it is written: {PROBLEMS['asks']}")
    if is_data(given):
        raise InvalidInputError(f"content cannot be kept as it is written: {PROBLEMS['data']}")
    verdict = check_text(given, kind=kind)
    if verdict.problem:
        raise InvalidInputError(f"content cannot be kept as it is written: {PROBLEMS[verdict.problem]}")
    text = verdict.text or ""
    # what a formation would cut off, whoever asked can say better
    if len(text.split()) < len(given.split()) or (kind == "core" and len(text) > _MAX_CORE_CHARS):
        raise InvalidInputError(f"content cannot be kept as it is written: {PROBLEMS['too_long']}")
    return text


def checked_procedure(request: ProcedureRequest) -> str:
    """The title and, below it, the numbered steps.

    Raises:
        InvalidInputError: the title or a step says nothing, or the whole is too long or repeats itself.
    """
    lines = [single_line(request.title, "the title")]
    for number, step in enumerate(request.steps, start=1):
        lines.append(f"{number}. {single_line(_MARK.sub('', step.strip()), f'step {number}')}")
    verdict = check_text(require_text("\n".join(lines), what="the procedure"), kind="procedure")
    if verdict.text is None:
        raise InvalidInputError("the procedure repeats itself: write each step once, as an order to whoever follows it")
    return verdict.text


def single_line(text: str, what: str = "content") -> str:
    """The text without line breaks.

    Raises:
        InvalidInputError: it is empty or too long; the message calls it `what`.
    """
    return " ".join(require_text(text, what=what).split())


async def _store(
    resources: Resources, identity: Identity, new: NewMemory, conversation: Conversation, categories: Sequence[str]
) -> Remembered:
    """Stores a memory, or names the one that says the same.

    What is near is looked up within the operation, which holds the agent's head: of equal writes at once, one stores.

    Args:
        categories: those that the role may know of: no other memory counts as known or near.

    Raises:
        InvalidInputError: the agent has that half of memory switched off.
        EmbeddingError: a setting of the embedder is wrong; nothing was written.
    """
    kind = new.kind
    texts = [new.search_text] if kind in memories.INDEXED else []
    resources = await with_agents_embedder(resources, identity)
    vectors = await embed_to_store(resources, texts, is_awaited=True)

    async def act(scoped: ScopedTransaction) -> Remembered:
        await scoped.begin_operation("remember_procedure" if kind == "procedure" else "remember")
        await scopes.ensure_agent(scoped)
        if conversation is not None:
            # a conversation that orders the memory about does bounded damage; what the host keeps is its own affair
            most = resources.settings.remembers_per_session_and_day
            if await history.done_today(scoped, *REMEMBERING) >= most:
                raise NotRememberedError(f"this session has had {most} memories kept today, and that is the most")
        return await store_unless_known(resources, scoped, new, vectors)

    with resources.events.timed(identity, "explicit", "create") as outcome:
        remembered = await resources.database.write(identity, act, categories=categories)
        outcome.memory_id, outcome.category = remembered.id, new.category
        outcome.status = "skipped" if remembered.known else "ok"
    resources.write_events()
    return remembered


async def store_unless_known(
    resources: Resources,
    scoped: ScopedTransaction,
    new: NewMemory,
    vectors: Sequence[Vector | None],
    *,
    instead_of: UUID | None = None,
) -> Remembered:
    """Stores a memory, or names the one that says the same; one that it is to stand instead of does not count.

    Raises:
        InvalidInputError: the agent has that half of memory switched off.
    """
    # off also stops forming: what nobody will be shown is not taken for remembered
    switch = "always_in_context" if new.kind in memories.STANDING else "rag"
    if not getattr(resources.settings.overridden(await scopes.agent_settings(scoped)), switch):
        raise InvalidInputError(f"this agent keeps no memory of the kind {new.kind}: its setting {switch} is off")
    near: list[SimilarFact] = []
    if new.kind == "fact":  # every other kind is unique by its text alone
        model, most = resources.embedder.name, resources.settings.neighbours
        found = await memories.similar(scoped, [new.scope_key], vectors, model=model, most=most)
        near = [old for old in found if old.id != instead_of]
    thresholds = resources.embedder.bands
    bands = {old.id: band_of_pair(new.content, old.content, old.similarity, thresholds) for old in near}
    known_id = next((old.id for old in near if bands[old.id] == "auto"), None)
    if known_id is None:
        memory = replace(new, relations=related(near, resources.embedder.bands, resources.settings))
        vector = dict(zip([new.id], vectors, strict=False))
        if await memories.insert(scoped, [memory], model=resources.embedder.name, vectors=vector, run_id=None):
            replaceable = tuple(old for old in near if bands[old.id] == "check" and not old.protected)
            return Remembered(id=new.id, scope_key=new.scope_key, near=replaceable)
        twin = (await memories.twins(scoped, [new])).get(new.id)
        known_id = twin.id if twin else None
    if known_id and new.private:  # what is said in confidence now is private from now on
        await memories.make_private(scoped, known_id)
    return Remembered(id=known_id, scope_key=new.scope_key, known=True)


async def _memory(
    resources: Resources, identity: Identity, draft: Draft, kind: Kind, conversation: Conversation
) -> NewMemory:
    """The user's memory, or of the wider scope that is wanted where the rules of sharing let it pass."""
    own = scope_key("user", identity.user_id) if identity.user_id else ""
    place = await permitted_place(resources, identity, draft, conversation, fallback=own)
    if not place.scope_key:
        raise InvalidInputError("a memory belongs to a user unless it may be shared: give the identity a user_id")
    scope, owner = split_scope_key(place.scope_key)
    text = place.said or draft.text
    return replace(
        new_memory(kind, draft.category, place.scope_key, text, resources.now(identity)),
        said=place.said,
        subject_user_id=owner if scope == "user" else None,
        private=draft.private,
        tags=place.tags,
        source_session_id=identity.session_id,
    )


async def permitted_place(
    resources: Resources, identity: Identity, draft: Draft, conversation: Conversation, *, fallback: str
) -> Place:
    """Return the group's or agent's scope key if the draft names it and the rules allow it, else the fallback.

    The text of a model is shared only if it is a sentence that the user typed, and then in the words of that sentence.
    """
    said: str | None
    settings = resources.settings if draft.scope == "user" else await agent_settings(resources, identity)
    groups, personal = group_names(identity, {}), resources.categories.personal
    unnumbered = draft._replace(text=_STEP_NUMBER.sub("", draft.text))
    if conversation is None:
        # line by line: the marks that it bears count, and it is the caller's own word
        batch, said = _own_lines(unnumbered.text, identity, resources), draft.text
        resolver = ScopeResolver(batch, identity, groups, settings, personal)
    else:
        batch = [message for message in conversation if is_typed(message, {identity.user_id})]
        resolver = ScopeResolver(batch, identity, groups, settings, personal)
        said = next((proof.said for proof in find_quotations(draft.text, batch)), None)
    return resolver.resolve(unnumbered, batch, said, fallback=fallback)


def _own_lines(text: str, identity: Identity, resources: Resources) -> list[Message]:
    author, said_at = display_name(identity.user_id or identity.agent_id), resources.now(identity)
    word = Message(
        id=uuid4(), session_id="", role="user", author=author, user_id=identity.user_id, content="", said_at=said_at
    )
    return [replace(word, content=line) for line in text.splitlines()]
