"""What somebody looks up under the role's allowlist: a search, a listing, what happened since, a memory's history."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from mnemic.operations.explicit.forget import is_known
from mnemic.operations.recall.context import search, search_setup
from mnemic.operations.run.resources import Resources
from mnemic.policy.recall.delta import bullets
from mnemic.policy.text.shape import clean_question, clip_text, count_tokens, fit
from mnemic.prompts.memory_context import bullet_line
from mnemic.state.errors import EmbeddingError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind
from mnemic.state.query import MemoryQuery, Updates
from mnemic.state.records import Found, HistoryEvent, Memory
from mnemic.storage import history, memories, revisions

#: Of a kept message, which may have 32,000 characters, a bullet shows the beginning; of a procedure every step counts.
MESSAGE_CHARS: Final = 500
#: No history comes so far.
_END: Final = 2**63 - 1


async def query(resources: Resources, identity: Identity, request: MemoryQuery) -> list[Found]:
    """The memories and kept messages that fit a request best, best first, within its budget.

    The categories are checked before anything is read. The transaction is bound to the role's whole allowlist whatever
    the request names, so that the database holds it too.

    Raises:
        CategoryRefusedError: a category is not on the role's allowlist, or the role has none.
        InvalidInputError: the question says nothing.
        EmbeddingError: the question could not be embedded; a search by text without a threshold needs no embedder.
        DatabaseUnavailableError: the database cannot be had in time.
    """
    categories = resources.categories.requested(identity.role, request.categories)
    if not categories:
        return []
    request = request.model_copy(update={"query": clean_question(request.query)})
    if not request.query:
        raise InvalidInputError("a search needs a question that says something")
    vector = None
    if request.search_type != "text" or request.threshold is not None:
        try:
            (vector,) = await resources.embedder.embed([request.query])
        except EmbeddingError as error:
            raise EmbeddingError(f'{error}; search_type="text" searches without the embedder') from None
    allowed = resources.categories.of_role(identity.role).categories
    setup = search_setup(resources, resources.settings)
    async with resources.database.scoped(identity, categories=allowed, for_recall=True) as scoped:
        found = await search(scoped, setup, request, vector, categories)
    if request.budget_tokens is not None:
        found = fit(found, tokens=lambda item: count_tokens(result_line(item, request)), budget=request.budget_tokens)
    resources.note_uses(identity, found)
    return found


def result_line(found: Found, request: MemoryQuery) -> str:
    """One result as this request's answer shows it: the tokens of these lines are what a budget bounds."""
    if request.returns == "bullets" and found.kind == "message":
        found = replace(found, content=clip_text(found.content, MESSAGE_CHARS))
    return bullet_line(found)


async def list_memories(
    resources: Resources, identity: Identity, kinds: Sequence[Kind], *, limit: int, with_closed: bool
) -> list[Memory]:
    """The identity's memories of these kinds, newest first.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    readable = [kind for kind in kinds if allowlist.standing or kind not in memories.STANDING]
    async with resources.database.scoped(identity, categories=allowlist.categories) as scoped:
        return await memories.living(scoped, readable, most=limit, with_closed=with_closed)


async def updates_since(resources: Resources, identity: Identity, revision: int | None) -> Updates:
    """What happened to the identity's memories since a revision; None: nothing but today's revision.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.scoped(identity, categories=allowlist.categories) as scoped:
        changes = await revisions.changes(
            scoped, None, since=_END if revision is None else revision, standing=allowlist.standing
        )
    return Updates(revision=max(changes.revision, revision or 0), bullets=bullets(changes))


async def memory_history(resources: Resources, identity: Identity, memory_id: UUID) -> list[HistoryEvent]:
    """Everything that happened to one memory, oldest first; empty for one that the role may not read.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.scoped(identity, categories=allowlist.categories) as scoped:
        memory = await memories.find(scoped, memory_id)
        is_readable = memory is not None and is_known(memory, allowlist)
        return await history.of_memory(scoped, memory_id) if is_readable else []
