"""The one search statement: candidates with their scores, not yet in order. The caller owns the transaction."""

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
#: Of what candidates are related to, so many of the closest are looked up; two at most come along.
_COMPANIONS: Final = 20


async def search_candidates(
    tx: ScopedTransaction,
    setup: SearchSetup,
    request: MemoryQuery,
    vector: Sequence[float] | None,
    categories: Sequence[str],
) -> tuple[list[Candidate], Links]:
    """What may be among the results, within the visible scope keys, and what each candidate is related to.

    Args:
        setup: its weights are those of the branches that are searched.
        request: its question is clean, and its categories are allowed.
        vector: of the question, by the setup's model; None: the search goes by text alone.
        categories: the only ones that are searched.
    """
    question = "" if request.search_type == "semantic" else straight_quotes(request.query)
    scopes = get_args(Scope) if request.scopes is None else request.scopes
    wanted = tuple(key for key in tx.scope_keys if split_scope_key(key)[0] in scopes)
    on_request = (kind for category, kind in KINDS_ON_REQUEST.items() if category in (request.categories or ()))
    filters, candidates = request.filters.model_dump(), setup.settings.search_candidates
    values = {
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
        "scope_keys": array_text(tuple(map(tx.stored_key, wanted))),
        "kinds": array_text((*SEARCHED_KINDS, "message", *on_request)),
        "categories": array_text(tuple(categories)),
        "w_text": float(setup.weights.text),
        "w_meaning": float(setup.weights.meaning),
        "candidates": candidates,
        # with the best 100 alone of messages, ten results lose 1.7 points of recall@5
        "most": 2 * candidates,
        # ranks mean something among all candidates alone
        "most_facts": 2 * (candidates if setup.settings.fusion == "rrf" else request.top_k + 5),
        "short": array_text(tuple(name for name, most in setup.rag_lengths.items() if most < request.top_k)),
        "companions": _COMPANIONS,
    }
    found, links = _with_links(await tx.tuples(with_parts(_SQL["search"], *_parts(request)), values))
    return [_of_host(tx, candidate) for candidate in found], links


def _of_host(tx: ScopedTransaction, candidate: Candidate) -> Candidate:
    """Return the candidate with session and scope key as the host knows them."""
    if "~" not in f"{candidate.session_id}{candidate.scope_key}":
        return candidate
    session_id = candidate.session_id and tx.host_session(candidate.session_id)
    return candidate._replace(session_id=session_id, scope_key=tx.host_session(candidate.scope_key))


async def other_models(tx: ScopedTransaction, model: str) -> dict[str, int]:
    """Vectors of the visible scope keys that other embedders than this one made, by their names, the most first."""
    keys = array_text(tuple(map(tx.stored_key, tx.scope_keys)))
    values = {"agent_id": tx.identity.agent_id, "scope_keys": keys, "model": model}
    return dict(await tx.tuples(_SQL["other_models"], values))


def _parts(request: MemoryQuery) -> list[str]:
    """The parts of the statement that a request needs, beside what every one needs."""
    filtered = any(value is not None for _, value in request.filters)
    return ["filtered"] * filtered + ["bounded"] * (request.threshold is not None)


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
