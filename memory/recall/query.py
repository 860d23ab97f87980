"""What recall and query share: the standing part and the one search; and what somebody looks up by a request."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from mnemic.memory.recall.delta import bullets
from mnemic.memory.recall.passages import excerpt, shortened
from mnemic.memory.recall.scoring import branch_weights, ranked, ranking_context, reciprocal
from mnemic.memory.runtime.access import is_visible
from mnemic.memory.runtime.categories import Allowlist
from mnemic.memory.runtime.embedding import is_switched, with_agents_embedder
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import CHARS_PER_TOKEN, clean_question, count_tokens, fit
from mnemic.models.embedders.splitting import embed_each
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts.recall.memory_context import dated_text, memory_line
from mnemic.state.errors import EmbeddingError, EmbeddingInputError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import CONTEXT_KINDS, Kind
from mnemic.state.query import MemoryQuery, Updates
from mnemic.state.records import ContextPart, HistoryEvent, Memory, Message, ScopeContext, SearchResult
from mnemic.state.search import SearchSetup
from mnemic.state.settings import Settings
from mnemic.storage import history, inbox, memories, revisions
from mnemic.storage.search import other_models, search_candidates
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")

#: Characters of the passage that is shown of a longer message; of a procedure every step counts.
MESSAGE_CHARS: Final = 500
#: A passage of fewer characters is not worth its line.
_MIN_PASSAGE_CHARS: Final = 120
#: Category of every message.
_MESSAGE: Final = "message"
#: No history comes so far.
_END: Final = 2**63 - 1
#: The shortest line of a fact, a date and hardly more, has 16 characters.
_MIN_TOKENS = 4


async def read_standing(scoped: ScopedTransaction, resources: Resources, allowlist: Allowlist) -> ContextPart:
    """What is always in context for a role with this allowlist.

    Standing texts come to roles marked so; facts of a category that is always in context, to every role whose
    allowlist has it, within the tokens that the texts leave.
    """
    budget = resources.settings.standing_tokens
    part = await memories.read_context(
        scoped,
        kinds=CONTEXT_KINDS if allowlist.standing else (),
        fact_categories=[name for name in resources.categories.always if name in allowlist.categories],
        max_facts=budget // _MIN_TOKENS,
    )
    return part._replace(scopes=tuple(fit_facts(part.scopes, budget, scoped.identity.user_id)))


def fit_facts(scopes: Sequence[ScopeContext], budget: int, reader: str | None = None) -> Iterator[ScopeContext]:
    """Yield the scopes with the facts that fit: over all of them the most important first, then the newest."""
    left = budget - sum(part.tokens for part in scopes)
    facts = [fact for part in scopes for fact in part.facts]
    facts.sort(key=lambda fact: (-fact.importance, -fact.valid_from.timestamp(), str(fact.id)))
    chosen = fit(facts, tokens=lambda fact: count_tokens(memory_line(fact, reader)), budget=left)
    for part in scopes:
        kept = tuple(fact for fact in chosen if fact.scope_key == part.scope_key)
        if kept or part.texts:
            yield replace(part, facts=kept)


def search_setup(resources: Resources, settings: Settings) -> SearchSetup:
    """That of an agent with these settings."""
    return SearchSetup(model=resources.embedder.name, settings=settings, rag_lengths=resources.categories.rag_lengths)


#: Characters of candidates that a thread ranks: more of them take an event loop 10 ms and longer.
_LONG_CHARS: Final = 200_000


async def search(
    scoped: ScopedTransaction,
    setup: SearchSetup,
    request: MemoryQuery,
    vector: Sequence[float] | None,
    categories: Sequence[str],
) -> list[SearchResult]:
    """The best entries of the visible scope keys, best first; related memories, at most two, come behind them.

    One statement finds candidates and scores them; what is added to a score, and the order, is policy.

    Args:
        request: its question is clean, and its categories are allowed.
        vector: of the question; None searches by text alone. A search by text needs one for its threshold.
        categories: the only ones that are searched: those the request names, or all that the role may read.
    """
    by_rank = setup.settings.fusion == "rrf"
    weights = branch_weights(setup.weights, request, has_vector=vector is not None, by_rank=by_rank)
    setup = replace(setup, weights=weights)
    candidates, links = await search_candidates(scoped, setup, request, vector, categories)
    if by_rank:
        candidates = reciprocal(candidates, weights, setup.settings.rrf_k)
    context = ranking_context(request, scoped.identity.user_id, setup.rag_lengths)
    passages = {item.item_id: item.piece for item in candidates}

    def rank() -> list[SearchResult]:
        best = ranked(candidates, links, context, weights)
        return [with_excerpt(item, passages[item.item_id], request.query) for item in best]

    is_long = sum(len(item.content) for item in candidates) > _LONG_CHARS
    return await asyncio.to_thread(rank) if is_long else rank()


def with_excerpt(found: SearchResult, piece: int, question: str) -> SearchResult:
    """Return the result; a long message with the passage that fits the question."""
    if found.kind != "message" or len(found.content) <= MESSAGE_CHARS:
        return found
    return replace(found, excerpt=excerpt(found.content, piece, question, MESSAGE_CHARS))


def fit_results(
    found: Sequence[SearchResult], line: Callable[[SearchResult], str], question: str, budget: int
) -> list[SearchResult]:
    """Return the results whose lines fit into a budget of tokens; of a message too long for what is left, a passage."""
    chosen: list[SearchResult] = []
    left = budget
    for result in found:
        item = result
        size = count_tokens(line(item))
        if size > left and item.kind == "message":
            item = _fitted(item, line, question, left)
            size = count_tokens(line(item))
        if size <= left:
            chosen.append(item)
            left -= size
    return chosen


def _fitted(message: SearchResult, line: Callable[[SearchResult], str], question: str, left: int) -> SearchResult:
    """Return a message with its excerpt in place of its content, shortened if that is too long as well."""
    passage = replace(message, content=message.shown)
    excess = count_tokens(line(passage)) - left
    max_chars = len(passage.content) - CHARS_PER_TOKEN * max(excess, 0)
    if max_chars < _MIN_PASSAGE_CHARS:
        return message
    text = shortened(passage.content, question, max_chars)
    return replace(passage, content=text, excerpt=text)


def best_similarity(found: Sequence[SearchResult]) -> float | None:
    """Return the highest cosine similarity among results; None if none has one."""
    similarities = [item.explanation.similarity for item in found if item.explanation.similarity is not None]
    return max(similarities, default=None)


async def warn_of_other_vectors(resources: Resources, scoped: ScopedTransaction, found: Sequence[SearchResult]) -> None:
    """Says once in each process how many memories a search by meaning passes over, for another embedder made theirs.

    Args:
        found: results of a search that had a vector; only what has no similarity makes it worth a look.
    """
    if resources.warned or (found and all(item.explanation.similarity is not None for item in found)):
        return
    name = resources.embedder.name
    if others := await other_models(scoped, name):
        resources.warned.add(name)
        told = ", ".join(f"{count:,} of {model}" for model, count in others.items())
        text = "vectors of another embedder than %s are found by words alone: %s; `mnemic reembed` makes new ones"
        _LOG.warning(text, name, told)


async def query(resources: Resources, identity: Identity, request: MemoryQuery) -> list[SearchResult]:
    """The memories and kept messages that fit a request best, best first, within its budget.

    The categories are checked before anything is read. The transaction is bound to the role's whole allowlist whatever
    the request names, so that the database holds it too.

    Raises:
        CategoryRefusedError: a category is not on the role's allowlist, or the role has none.
        InvalidInputError: the question says nothing.
        EmbeddingError: the model could not be used, or refuses the question of a search by meaning or with a threshold.
            A hybrid search goes on by text if the question is refused; a search by text needs no embedder.
        DatabaseUnavailableError: the database cannot be had in time.
    """
    categories = resources.categories.requested(identity.role, request.categories)
    if not categories:
        return []
    filters = request.filters.in_zone(resources.zone_of(identity))
    request = request.model_copy(update={"query": clean_question(request.query), "filters": filters})
    if not request.query:
        raise InvalidInputError("a search needs a question that says something")
    with resources.events.timed(identity, "query", "search") as outcome:
        found = await _search_by_request(resources, identity, request, categories)
        if found is None:
            found = await _search_by_request(resources, identity, request, categories) or []
        outcome.sim = best_similarity(found)
    resources.write_events()
    if request.budget_tokens is not None:
        found = fit_results(
            found, lambda item: result_line(item, request, identity.user_id), request.query, request.budget_tokens
        )
    resources.note_uses(identity, found)
    resources.shown.note(identity, [item.item_id for item in found])
    return found


async def _search_by_request(
    resources: Resources, identity: Identity, request: MemoryQuery, categories: Sequence[str]
) -> list[SearchResult] | None:
    """Return the results, or None if the agent was switched to another embedder meanwhile."""
    chosen, vector = resources, None
    if request.search_type != "text" or request.threshold is not None:
        chosen = await with_agents_embedder(resources, identity, for_recall=True)
        vector = await _question_vector(chosen, request)
    allowed = resources.categories.of_role(identity.role).categories
    setup = search_setup(chosen, resources.settings)
    async with resources.database.transaction(identity, categories=allowed, for_recall=True) as scoped:
        found = await search(scoped, setup, request, vector, categories)
        if await is_switched(resources, chosen, scoped):
            return None
        if vector:
            await warn_of_other_vectors(chosen, scoped, found)
    return found


async def _question_vector(resources: Resources, request: MemoryQuery) -> Vector | None:
    """Return the vector of the question, or None if the model refuses it and the request can go by text."""
    hint = 'search_type="text" searches without the embedder'
    try:
        (vector,) = await embed_each(resources.embedder, [request.query])
    except EmbeddingError as error:
        raise EmbeddingError(f"{error}; {hint}") from None
    if vector is None:
        if request.search_type == "semantic" or request.threshold is not None:
            raise EmbeddingInputError(f"{resources.embedder.name} refuses this question; {hint}")
        _LOG.warning("the model refuses the question, so the search goes by text alone")
    return vector


def result_line(found: SearchResult, request: MemoryQuery, reader: str | None = None) -> str:
    """Return a result's line for this user; a budget bounds the tokens of these lines.

    An example is `[tasks] [2 March 2026] Ana ships the catalogue in May.`.
    """
    if request.returns == "full":
        found = replace(found, excerpt=None)
    return f"[{found.category}] {dated_text(found, reader)}"


async def list_memories(
    resources: Resources, identity: Identity, kinds: Sequence[Kind], *, limit: int, with_closed: bool
) -> list[Memory]:
    """The identity's memories of these kinds, newest first.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    readable = [kind for kind in kinds if allowlist.standing or kind not in CONTEXT_KINDS]
    async with resources.database.transaction(identity, categories=allowlist.categories) as scoped:
        return await memories.list_memories(scoped, readable, limit=limit, with_closed=with_closed)


async def list_messages(
    resources: Resources, identity: Identity, session_id: str | None, *, limit: int
) -> list[Message]:
    """Return the identity's stored messages, newest first; none if the role may not read messages.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    if _MESSAGE not in allowlist.categories:
        return []
    async with resources.database.transaction(identity, categories=allowlist.categories) as scoped:
        return await inbox.list_messages(scoped, session_id, limit=limit)


async def count_messages(resources: Resources, identity: Identity, session_id: str | None) -> int:
    """Return how many messages `list_messages` has without a limit.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    if _MESSAGE not in allowlist.categories:
        return 0
    async with resources.database.transaction(identity, categories=allowlist.categories) as scoped:
        return await inbox.count_messages(scoped, session_id)


async def updates_since(resources: Resources, identity: Identity, revision: int | None) -> Updates:
    """What happened to the identity's memories since a revision; None: nothing but today's revision.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.transaction(identity, categories=allowlist.categories) as scoped:
        changes = await revisions.read_changes(
            scoped, None, since=_END if revision is None else revision, with_context=allowlist.standing
        )
    return Updates(revision=max(changes.revision, revision or 0), bullets=bullets(changes, identity.user_id))


async def memory_history(resources: Resources, identity: Identity, memory_id: UUID) -> list[HistoryEvent]:
    """Everything that happened to one memory, oldest first; empty for one that the role may not read.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.transaction(identity, categories=allowlist.categories) as scoped:
        memory = await memories.find(scoped, memory_id)
        is_readable = memory is not None and is_visible(memory, allowlist)
        return await history.read_memory_history(scoped, memory_id) if is_readable else []
