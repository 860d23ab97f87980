"""The search, and one explicit request for it: the tool `memory_query`, `Mnemic.query`, `mnemic query`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mnemic.models.embedders import Vector
from mnemic.operations.run.resources import Resources
from mnemic.policy.recall.scoring import WEIGHTS, Weights, branch_weights, ranked, ranking_context, reciprocal
from mnemic.policy.text.shape import clean_question, clip_text, count_tokens, fit
from mnemic.prompts.memory_context import bullet_line
from mnemic.state.errors import EmbeddingError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.query import CandidateSearch, MemoryQuery
from mnemic.state.records import Found
from mnemic.state.settings import Settings
from mnemic.storage.search import search_candidates
from mnemic.storage.transaction import ScopedTransaction

#: Of a kept message, which may have 32,000 characters, a bullet shows the beginning; of a procedure every step counts.
MESSAGE_CHARS = 500


@dataclass(frozen=True, kw_only=True)
class SearchSetup:
    """What holds for every search of an agent."""

    #: The embedder's name.
    model: str
    settings: Settings
    #: Results of a category, at most.
    rag_lengths: Mapping[str, int] = field(default_factory=dict)
    weights: Weights = WEIGHTS


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
    request = request.model_copy(update={"query": _question(request)})
    is_embedded = request.search_type != "text" or request.threshold is not None
    vector = await _vector(resources, request.query) if is_embedded else None
    allowed = resources.categories.of_role(identity.role).categories
    setup = search_setup(resources, resources.settings)
    async with resources.database.scoped(identity, categories=allowed, for_recall=True) as scoped:
        found = await search(scoped, setup, request, vector, categories)
    returned = _within_budget(found, request)
    resources.note_uses(identity, [item.item_id for item in returned if item.kind != "message"])
    return returned


def search_setup(resources: Resources, settings: Settings) -> SearchSetup:
    """That of an agent with these settings."""
    return SearchSetup(model=resources.embedder.name, settings=settings, rag_lengths=resources.categories.rag_lengths)


async def search(
    scoped: ScopedTransaction,
    setup: SearchSetup,
    request: MemoryQuery,
    vector: Sequence[float] | None,
    categories: Sequence[str],
) -> list[Found]:
    """The best entries of the visible scope keys, best first; related memories, at most two, come behind them.

    One statement finds candidates and scores them; what is added to a score, and the order, is policy.

    Args:
        request: its question is clean, and its categories are allowed.
        vector: of the question; None searches by text alone. A search by text needs one for its threshold.
        categories: the only ones that are searched: those the request names, or all that the role may read.
    """
    settings, by_rank = setup.settings, setup.settings.fusion == "rrf"
    weights = branch_weights(setup.weights, request, has_vector=vector is not None, by_rank=by_rank)
    context = ranking_context(request, scoped.identity.user_id, setup.rag_lengths)
    candidates, links = await search_candidates(
        scoped,
        CandidateSearch(
            request=request,
            vector=vector,
            model=setup.model,
            categories=categories,
            rag_lengths=context.rag_lengths,
            text=weights.text,
            meaning=weights.meaning,
            candidates=settings.search_candidates,
            by_rank=by_rank,
        ),
    )
    if by_rank:
        candidates = reciprocal(candidates, weights, settings.rrf_k)
    return ranked(candidates, links, context, weights)


def result_line(found: Found, request: MemoryQuery) -> str:
    """One result as this request's answer shows it: the tokens of these lines are what a budget bounds."""
    if request.returns == "bullets" and found.kind == "message":
        found = replace(found, content=clip_text(found.content, MESSAGE_CHARS))
    return bullet_line(found)


def _question(request: MemoryQuery) -> str:
    words = clean_question(request.query)
    if not words:
        raise InvalidInputError("a search needs a question that says something")
    return words


async def _vector(resources: Resources, question: str) -> Vector:
    try:
        return (await resources.embedder.embed([question]))[0]
    except EmbeddingError as error:
        raise EmbeddingError(f'{error}; search_type="text" searches without the embedder') from None


def _within_budget(found: list[Found], request: MemoryQuery) -> list[Found]:
    if request.budget_tokens is None:
        return found
    return fit(found, tokens=lambda item: count_tokens(result_line(item, request)), budget=request.budget_tokens)
