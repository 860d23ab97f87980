"""Memories and messages on request: a search, listings, changes since a revision, the history of a memory."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from mnemic.memory.recall.delta import bullets
from mnemic.memory.recall.search import Searched, VisibleSearch, best_similarity, fit_results
from mnemic.memory.runtime.access import is_visible
from mnemic.memory.runtime.identity import log_ids
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import clean_question
from mnemic.models.embedders import embed_each
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts.recall.memory_context import dated_text
from mnemic.state.errors import EmbeddingError, EmbeddingInputError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import CONTEXT_KINDS, Kind
from mnemic.state.query import MemoryQuery, Updates
from mnemic.state.records import HistoryEvent, Memory, Message, SearchResult
from mnemic.storage import history, inbox, memories, revisions

_LOG = logging.getLogger("mnemic")
#: Category of every message.
_MESSAGE: Final = "message"
#: A revision above those of any history.
_AFTER_LAST_REVISION: Final = 2**63 - 1
_TEXT_HINT: Final = 'search_type="text" searches without the embedder'


async def query(resources: Resources, identity: Identity, request: MemoryQuery) -> list[SearchResult]:
    """Return the memories and kept messages that fit a request best, best first, within its budget.

    The categories are checked before anything is read.

    Raises:
        CategoryRefusedError: if a category is not on the role's allowlist, or the role has none.
        InvalidInputError: if the question has no visible character.
        EmbeddingError: if the model cannot be used, or refuses the question of a search by meaning or with a threshold.
            If it refuses the question of a hybrid search, the search goes on by text. A search by text needs no model.
        DatabaseUnavailableError: if the database does not answer in time.
    """
    categories = resources.categories.requested(identity.role, request.categories)
    if not categories:
        return []
    filters = request.filters.in_zone(resources.zone_of(identity))
    request = request.model_copy(update={"query": clean_question(request.query), "filters": filters})
    if not request.query:
        raise InvalidInputError("query: the question is empty; give some text")
    with resources.events.timed(identity, "query", "search") as outcome:
        results = (await _search(resources, identity, request, categories)).results
        outcome.sim = best_similarity(results)
    resources.write_events()
    if request.budget_tokens is not None:
        line = partial(result_line, request=request, reader=identity.user_id)
        results = fit_results(results, line, request.query, request.budget_tokens)
    resources.note_uses(identity, results)
    resources.shown.note(identity, [result.id for result in results])
    return results


async def _search(
    resources: Resources, identity: Identity, request: MemoryQuery, categories: Sequence[str]
) -> Searched:
    needs_vector = request.search_type != "text" or request.threshold is not None
    return await VisibleSearch(
        resources=resources,
        identity=identity,
        settings=resources.settings,
        request=request,
        categories=categories,
        embed=partial(_embed_question, identity=identity, request=request) if needs_vector else None,
    ).run()


async def _embed_question(resources: Resources, identity: Identity, request: MemoryQuery) -> Vector | None:
    """Return the vector of the question, or None if the model refuses it and the request can go by text."""
    try:
        (vector,) = await embed_each(resources.embedder, [request.query])
    except EmbeddingError as error:
        raise EmbeddingError(f"{error}; {_TEXT_HINT}") from None
    if vector is None:
        if request.search_type == "semantic" or request.threshold is not None:
            raise EmbeddingInputError(f"{resources.embedder.name} refuses this question; {_TEXT_HINT}")
        _LOG.warning("The model refuses the question, so the search goes by text alone.", extra=log_ids(identity))
    return vector


def result_line(result: SearchResult, request: MemoryQuery, reader: str | None = None) -> str:
    """Return the line of a result for this user; a budget bounds the tokens of these lines.

    An example is `[tasks] [2 March 2026] Ana ships the catalogue in May.`.
    """
    if request.returns == "full":
        result = replace(result, excerpt=None)
    return f"[{result.category}] {dated_text(result, reader)}"


async def list_memories(
    resources: Resources, identity: Identity, kinds: Sequence[Kind], *, limit: int, with_closed: bool
) -> list[Memory]:
    """Return the identity's memories of these kinds, newest first.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    readable: list[Kind] = []
    for kind in kinds:
        if allowlist.standing or kind not in CONTEXT_KINDS:
            readable.append(kind)
    async with resources.database.transaction(identity, categories=allowlist.categories) as tx:
        return await memories.list_memories(tx, readable, limit=limit, with_closed=with_closed)


async def list_messages(
    resources: Resources, identity: Identity, session_id: str | None, *, limit: int
) -> list[Message]:
    """Return the identity's stored messages, newest first; none if the role may not read messages.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    if _MESSAGE not in allowlist.categories:
        return []
    async with resources.database.transaction(identity, categories=allowlist.categories) as tx:
        return await inbox.list_messages(tx, session_id, limit=limit)


async def count_messages(resources: Resources, identity: Identity, session_id: str | None) -> int:
    """Return how many messages `list_messages` has without a limit.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    if _MESSAGE not in allowlist.categories:
        return 0
    async with resources.database.transaction(identity, categories=allowlist.categories) as tx:
        return await inbox.count_messages(tx, session_id)


async def updates_since(resources: Resources, identity: Identity, revision: int | None) -> Updates:
    """Return the changes of the identity's memories since a revision; None returns only the current revision.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.transaction(identity, categories=allowlist.categories) as tx:
        since = _AFTER_LAST_REVISION if revision is None else revision
        changes = await revisions.read_changes(tx, None, since=since, with_context=allowlist.standing)
    return Updates(revision=max(changes.revision, revision or 0), bullets=bullets(changes, identity.user_id))


async def memory_history(resources: Resources, identity: Identity, memory_id: UUID) -> list[HistoryEvent]:
    """Return the history of one memory, oldest row first; nothing for a memory that the role may not read.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.transaction(identity, categories=allowlist.categories) as tx:
        memory = await memories.find(tx, memory_id)
        if memory is None or not is_visible(memory, allowlist):
            return []
        return await history.read_memory_history(tx, memory_id)
