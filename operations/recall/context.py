"""What recall and query share: the part that is always in context, and the one search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mnemic.operations.run.resources import Resources
from mnemic.policy.categories import Allowlist
from mnemic.policy.recall.scoring import WEIGHTS, Weights, branch_weights, ranked, ranking_context, reciprocal
from mnemic.policy.text.shape import count_tokens, fit
from mnemic.prompts.memory_context import memory_line
from mnemic.state.query import CandidateSearch, MemoryQuery
from mnemic.state.records import Found, Standing, StandingPart
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.search import search_candidates
from mnemic.storage.transaction import ScopedTransaction

#: The shortest line of a fact, a date and hardly more, has 16 characters.
_LEAST_TOKENS = 4


async def read_standing(scoped: ScopedTransaction, resources: Resources, allowlist: Allowlist) -> StandingPart:
    """What is always in context for a role with this allowlist.

    Standing texts come to roles marked so; facts of a category that is always in context, to every role whose
    allowlist has it, within the tokens that the texts leave.
    """
    budget = resources.settings.standing_tokens
    part = await memories.standing(
        scoped,
        kinds=memories.STANDING if allowlist.standing else (),
        always=[name for name in resources.categories.always if name in allowlist.categories],
        most=budget // _LEAST_TOKENS,
    )
    return part._replace(scopes=tuple(fit_facts(part.scopes, budget)))


def fit_facts(scopes: Sequence[Standing], budget: int) -> Iterator[Standing]:
    """The scopes with the facts that fit: over all of them the most important first, then the newest."""
    left = budget - sum(part.tokens for part in scopes)
    facts = [fact for part in scopes for fact in part.facts]
    facts.sort(key=lambda fact: (-fact.importance, -fact.valid_from.timestamp(), str(fact.id)))
    chosen = fit(facts, tokens=lambda fact: count_tokens(memory_line(fact)), budget=left)
    for part in scopes:
        kept = tuple(fact for fact in chosen if fact.scope_key == part.scope_key)
        if kept or part.texts:
            yield replace(part, facts=kept)


@dataclass(frozen=True, kw_only=True)
class SearchSetup:
    """What holds for every search of an agent."""

    #: The embedder's name.
    model: str
    settings: Settings
    #: Results of a category, at most.
    rag_lengths: Mapping[str, int] = field(default_factory=dict)
    weights: Weights = WEIGHTS


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
