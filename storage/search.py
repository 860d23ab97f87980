"""The search statement: candidates with their scores, not yet in order. The caller owns the transaction."""

from collections.abc import Sequence
from typing import Any, Final, get_args
from uuid import UUID

from pgvector import HalfVector

from mnemic.memory.text.questions import quoted_phrases, straight_quotes
from mnemic.state.identity import Scope, split_scope_key
from mnemic.state.kinds import KINDS_ON_REQUEST, SEARCHED_KINDS
from mnemic.state.query import Candidate, Links, MemoryQuery
from mnemic.state.search import SearchSetup
from mnemic.state.times import at_offset
from mnemic.storage.transaction import ScopedTransaction, array_text, load_statements, with_parts

_SQL = load_statements("search")
#: Maximum number of related memories that are read; at most two of them become results.
_COMPANIONS: Final = 20


async def search_candidates(
    tx: ScopedTransaction,
    setup: SearchSetup,
    request: MemoryQuery,
    vector: Sequence[float] | None,
    categories: Sequence[str],
) -> tuple[list[Candidate], Links]:
    """Return the candidates of a search in the visible scope keys, and the relations of each.

    Args:
        tx: sees the scope keys.
        setup: has the weights of the branches that are searched.
        request: has a clean question and allowed categories.
        vector: of the question, by the setup's model; None: search by text alone.
        categories: the only categories that are searched.
    """
    statement = with_parts(_SQL["search"], *_parts(request))
    values = _values(tx, setup, request, vector, categories)
    candidates, links = _with_links(await tx.tuples(statement, values))
    return [_of_host(tx, candidate) for candidate in candidates], links


def _values(
    tx: ScopedTransaction,
    setup: SearchSetup,
    request: MemoryQuery,
    vector: Sequence[float] | None,
    categories: Sequence[str],
) -> dict[str, Any]:
    """Return the values of the search statement."""
    question = ""
    if request.search_type != "semantic":
        question = straight_quotes(request.query)
    filters = request.filters.model_dump()
    max_candidates = setup.settings.search_candidates
    max_facts = request.top_k + 5
    if setup.settings.fusion == "rrf":  # a rank depends on all candidates
        max_facts = max_candidates
    limited: list[str] = []
    for category, length in setup.rag_lengths.items():
        if length < request.top_k:
            limited.append(category)
    return {
        **filters,
        "of_agent": filters["agent_id"],
        "agent_id": tx.identity.agent_id,
        "importance_min": filters["importance_min"] or 1,
        "importance_max": filters["importance_max"] or 5,
        "threshold": request.threshold,
        "question": question,
        "phrases": quoted_phrases(question),
        "vector": None if vector is None else HalfVector(list(vector)),
        "model": setup.model,
        "scope_keys": array_text(_searched_keys(tx, request)),
        "kinds": array_text(_searched_kinds(request)),
        "categories": array_text(tuple(categories)),
        "w_text": float(setup.weights.text),
        "w_meaning": float(setup.weights.meaning),
        "candidates": max_candidates,
        # with only the best 100 messages, ten results lose 1.7 points of recall@5
        "most": 2 * max_candidates,
        "most_facts": 2 * max_facts,
        "short": array_text(tuple(limited)),
        "companions": _COMPANIONS,
    }


def _searched_keys(tx: ScopedTransaction, request: MemoryQuery) -> tuple[str, ...]:
    """Return the visible scope keys of the request's scopes, as they are stored."""
    scopes = get_args(Scope) if request.scopes is None else request.scopes
    keys: list[str] = []
    for key in tx.scope_keys:
        scope, *_ = split_scope_key(key)
        if scope in scopes:
            keys.append(tx.stored_key(key))
    return tuple(keys)


def _searched_kinds(request: MemoryQuery) -> tuple[str, ...]:
    """Return the kinds that every search includes, and those whose category is requested."""
    kinds: list[str] = [*SEARCHED_KINDS, "message"]
    for category, kind in KINDS_ON_REQUEST.items():
        if category in (request.categories or ()):
            kinds.append(kind)
    return tuple(kinds)


def _of_host(tx: ScopedTransaction, candidate: Candidate) -> Candidate:
    """Return the candidate with the host's session id and scope key."""
    if "~" not in f"{candidate.session_id}{candidate.scope_key}":
        return candidate
    session_id = candidate.session_id and tx.host_session(candidate.session_id)
    return candidate._replace(session_id=session_id, scope_key=tx.host_session(candidate.scope_key))


async def other_models(tx: ScopedTransaction, model: str) -> dict[str, int]:
    """Return the number of visible vectors by embedder, of all embedders but this one, the largest number first."""
    keys = array_text(tuple(map(tx.stored_key, tx.scope_keys)))
    values = {"agent_id": tx.identity.agent_id, "scope_keys": keys, "model": model}
    return dict(await tx.tuples(_SQL["other_models"], values))


def _parts(request: MemoryQuery) -> list[str]:
    """Return the optional parts of the statement that a request needs."""
    parts: list[str] = []
    if any(value is not None for _, value in request.filters):
        parts.append("filtered")
    if request.threshold is not None:
        parts.append("bounded")
    return parts


def _with_links(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Candidate], Links]:
    """Return the candidates and their relations; the row of a relation has only the last three columns."""
    candidates: list[Candidate] = []
    links: dict[UUID, list[tuple[UUID, float]]] = {}
    for *columns, utc_offset, item_id, related_id, strength in rows:
        if item_id is not None:
            links.setdefault(item_id, []).append((related_id, strength))
            continue
        candidate = Candidate(*columns)
        if utc_offset:
            candidate = candidate._replace(dated=at_offset(candidate.dated, utc_offset))
        candidates.append(candidate)
    return candidates, links
