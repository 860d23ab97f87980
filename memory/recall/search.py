"""The search of recall and query: embed the question, search the visible memories, rank them, fit them to a budget."""

import logging
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.recall.passages import excerpt, shortened
from mnemic.memory.recall.scoring import branch_weights, ranked, ranking_context, reciprocal
from mnemic.memory.runtime.embedding import is_switched, with_agents_embedder
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.questions import folded
from mnemic.memory.text.shape import CHARS_PER_TOKEN, count_tokens
from mnemic.memory.text.words import stem
from mnemic.models.embedders.vectors import Vector
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import SearchResult
from mnemic.state.search import SearchSetup
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread
from mnemic.storage.search import other_models, search_candidates
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: Maximum length of the excerpt of a message, in characters.
MESSAGE_CHARS: Final = 500
#: Minimum share of the best score of a result that is worth a line for its meaning alone.
MIN_SHARE: Final = 0.6
#: Minimum length of an excerpt that is worth a line, in characters.
_MIN_EXCERPT_CHARS: Final = 120
#: Length of all candidates, in characters, above which a thread ranks them: it takes an event loop 10 ms and longer.
_MAX_CHARS_ON_LOOP: Final = 200_000


class Searched(NamedTuple):
    """Results of a search, best first."""

    results: list[SearchResult]
    #: False for a search by text alone.
    has_vector: bool


class VisibleSearch(NamedTuple):
    """One search of the memories that an identity may read."""

    resources: Resources
    identity: Identity
    #: Settings of the agent.
    settings: Settings
    #: Request with a cleaned question.
    request: MemoryQuery
    #: Categories to search; each is allowed for the role.
    categories: Sequence[str]
    #: Returns the vector of the question, or None without one. None for a search that needs no vector.
    embed: Callable[[Resources], Awaitable[Vector | None]] | None

    async def run(self) -> Searched:
        """Return the results; search again if the agent is switched to another embedder during the first search."""
        return await self._run_once() or await self._run_once() or Searched([], has_vector=False)

    async def _run_once(self) -> Searched | None:
        """Return the results, or None if the agent was switched to another embedder in the meantime.

        The question is embedded before the transaction begins, so that no connection waits for a model. The
        transaction is bound to the whole allowlist of the role, so that the database enforces it, too.
        """
        chosen, vector = self.resources, None
        if self.embed:
            chosen = await with_agents_embedder(self.resources, self.identity, for_recall=True)
            vector = await self.embed(chosen)
        allowed = self.resources.categories.of_role(self.identity.role).categories
        setup = search_setup(chosen, self.settings)
        async with self.resources.database.transaction(self.identity, categories=allowed, for_recall=True) as tx:
            results = await search(tx, setup, self.request, vector, self.categories)
            if await is_switched(self.resources, chosen, tx):
                return None
            if vector:
                await _warn_of_other_vectors(chosen, tx, results)
        return Searched(results, has_vector=vector is not None)


def search_setup(resources: Resources, settings: Settings) -> SearchSetup:
    """Return the setup of a search for an agent with these settings."""
    return SearchSetup(model=resources.embedder.name, settings=settings, rag_lengths=resources.categories.rag_lengths)


async def search(
    tx: ScopedTransaction,
    setup: SearchSetup,
    request: MemoryQuery,
    vector: Sequence[float] | None,
    categories: Sequence[str],
) -> list[SearchResult]:
    """Return the best entries of the visible scope keys, best first, then at most two related memories.

    One statement finds and scores the candidates. Boosts and order are computed here.

    Args:
        tx: Open transaction.
        setup: Embedder, settings and weights.
        request: Request with a cleaned question and allowed categories.
        vector: Vector of the question; None searches by text alone. A threshold needs a vector.
        categories: The only categories that are searched.
    """
    by_rank = setup.settings.fusion == "rrf"
    weights = branch_weights(setup.weights, request, has_vector=vector is not None, by_rank=by_rank)
    setup = replace(setup, weights=weights)
    candidates, links = await search_candidates(tx, setup, request, vector, categories)
    if by_rank:
        candidates = reciprocal(candidates, weights, setup.settings.rrf_k)
    context = ranking_context(request, tx.identity.user_id, setup.rag_lengths)
    pieces = {candidate.id: candidate.piece for candidate in candidates}

    def rank() -> list[SearchResult]:
        results: list[SearchResult] = []
        for result in ranked(candidates, links, context, weights):
            results.append(_with_excerpt(result, pieces[result.id], request.query))
        return results

    length = sum(len(candidate.content) for candidate in candidates)
    if length > _MAX_CHARS_ON_LOOP:
        return await in_thread(rank)
    return rank()


def _with_excerpt(result: SearchResult, piece: int, question: str) -> SearchResult:
    """Return the result; a long message has an excerpt of the passage that fits the question."""
    if result.kind != "message" or len(result.content) <= MESSAGE_CHARS:
        return result
    return replace(result, excerpt=excerpt(result.content, piece, question, MESSAGE_CHARS))


def worth_a_line(results: Sequence[SearchResult], telling: Set[str], min_similarity: float) -> list[SearchResult]:
    """Return the results that are worth a line in a context that did not request them.

    A result has a telling word of the question, or enough similarity and a share of the best score. A related memory
    goes with its result.

    Args:
        results: Results of a search, best first.
        telling: Stems of the question's words that few memories have.
        min_similarity: Cosine similarity below which meaning alone is no ground.
    """
    best_score = max((result.score for result in results), default=0.0)
    worthy: dict[UUID, SearchResult] = {}
    for result in results:
        if result.related_to is not None:
            is_worthy = result.related_to in worthy
        else:
            similarity = result.explanation.similarity
            is_near = similarity is None or similarity >= min_similarity
            is_worthy = (is_near and result.score >= MIN_SHARE * best_score) or _has_stem(result, telling)
        if is_worthy:
            worthy[result.id] = result
    return list(worthy.values())


def _has_stem(result: SearchResult, stems: Set[str]) -> bool:
    return any(stem(word) in stems for word in folded(f"{result.subject} {result.content}"))


def fit_results(
    results: Sequence[SearchResult], line: Callable[[SearchResult], str], question: str, budget: int
) -> list[SearchResult]:
    """Return the results with lines that fit into a budget of tokens; a message that is too long is shortened."""
    chosen: list[SearchResult] = []
    left = budget
    for result in results:
        fitting = result
        if result.kind == "message" and count_tokens(line(result)) > left:
            fitting = _shorten_message(result, line, question, left)
        size = count_tokens(line(fitting))
        if size <= left:
            chosen.append(fitting)
            left -= size
    return chosen


def _shorten_message(
    message: SearchResult, line: Callable[[SearchResult], str], question: str, left: int
) -> SearchResult:
    """Return a message with its excerpt in place of its content, shortened to the tokens that are left."""
    passage = replace(message, content=message.shown)
    excess = count_tokens(line(passage)) - left
    max_chars = len(passage.content) - CHARS_PER_TOKEN * max(excess, 0)
    if max_chars < _MIN_EXCERPT_CHARS:
        return message
    text = shortened(passage.content, question, max_chars)
    return replace(passage, content=text, excerpt=text)


def best_similarity(results: Sequence[SearchResult]) -> float | None:
    """Return the highest cosine similarity of the results; None if none has one."""
    best: float | None = None
    for result in results:
        similarity = result.explanation.similarity
        if similarity is not None and (best is None or similarity > best):
            best = similarity
    return best


async def _warn_of_other_vectors(resources: Resources, tx: ScopedTransaction, results: Sequence[SearchResult]) -> None:
    """Warn once per process of memories with vectors of another embedder: a search by meaning passes them over.

    Results that all have a similarity are no reason to look.
    """
    is_complete = bool(results) and all(result.explanation.similarity is not None for result in results)
    if resources.warned or is_complete:
        return
    name = resources.embedder.name
    others = await other_models(tx, name)
    if others:
        resources.warned.add(name)
        counts = ", ".join(f"{count:,} of {model}" for model, count in others.items())
        text = "Vectors of another embedder than %s are found by words alone: %s. `mnemic reembed` makes new ones."
        _LOG.warning(text, name, counts)
