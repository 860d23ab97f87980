"""The one search statement. The caller owns the transaction; the question's vector was made before it began."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from mnemic.policy.recall.ranking import MOST_RELATED, WEIGHTS, Weights, named_words, own_names, speaks_of_self
from mnemic.policy.recall.scoring import Asked, Candidate, Links, ranked, reciprocal
from mnemic.state.identity import split_scope_key
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Found
from mnemic.state.settings import Settings
from mnemic.storage.database import Scoped
from mnemic.storage.statements import array_text, load_statements, with_parts
from mnemic.storage.vectors import half_vector

_SQL = load_statements("search")
_QUOTED = re.compile(r'"([^"]{2,200})"')
#: In a database of locale C, Postgres takes typographic quotes for letters of the word beside them.
_STRAIGHT = str.maketrans("“”„", '"""')
#: Kinds that any search looks through; reflections have an entry that counts once they are absorbed.
_KINDS: Final = ("fact", "episode", "insight", "reflection", "message")
#: Kinds that come only where their category is asked for by name.
_ON_REQUEST: Final = {"procedural": "procedure", "journal": "journal"}
#: Of what candidates are related to, so many of the closest are looked up; two at most come along.
_COMPANIONS: Final = 20


async def search(
    scoped: Scoped,
    request: MemoryQuery,
    vector: Sequence[float] | None,
    *,
    model: str,
    settings: Settings,
    categories: Sequence[str],
    rag_lengths: Mapping[str, int],
    weights: Weights = WEIGHTS,
) -> list[Found]:
    """The best entries of the visible scope keys, best first; related memories, at most two, come behind them.

    Args:
        request: its question is clean, and its categories are allowed.
        vector: of the question, by `model`; None searches by text alone. A search by text needs one for its threshold.
        categories: the only ones that are searched: those the request names, or all that the role may read.
        rag_lengths: results of each category, at most.
        weights: what the scores are made of.
    """
    shared = _for_branches(weights, request, vector, settings)
    lengths = {name: most for name, most in rag_lengths.items() if most < request.top_k + MOST_RELATED}
    values = {
        **_words(request),
        **_filters(request, scoped),
        **_sizes(request, settings, lengths),
        "vector": None if vector is None else half_vector(vector),
        "model": model,
        "scope_keys": array_text(tuple(key for key in scoped.scope_keys if _is_asked(key, request))),
        "kinds": array_text(_kinds(request)),
        "categories": array_text(tuple(categories)),
        "w_text": float(shared.text),
        "w_meaning": float(shared.meaning),
    }
    candidates, links = _told_apart(await scoped.tuples(with_parts(_SQL["search"], *_parts(request)), values))
    if settings.fusion == "rrf":
        candidates = reciprocal(candidates, shared, settings.rrf_k)
    return ranked(candidates, links, _asked(request, scoped, lengths), shared)


def _kinds(request: MemoryQuery) -> tuple[str, ...]:
    return *_KINDS, *(kind for name, kind in _ON_REQUEST.items() if name in (request.categories or ()))


def _parts(request: MemoryQuery) -> list[str]:
    """The parts of the statement that a request needs, beside what every one needs."""
    filtered = any(value is not None for _, value in request.filters)
    return ["filtered"] * filtered + ["bounded"] * (request.threshold is not None)


def _sizes(request: MemoryQuery, settings: Settings, lengths: Mapping[str, int]) -> dict[str, Any]:
    everything = 2 * settings.search_candidates
    by_rank = settings.fusion == "rrf"  # ranks mean something among all candidates alone
    return {
        "candidates": settings.search_candidates,
        # with the best 100 alone of messages, ten results lose 1.7 points of recall@5
        "most": everything,
        "most_facts": everything if by_rank else 2 * request.top_k + 10,
        "short": array_text(tuple(name for name, most in lengths.items() if most < request.top_k)),
        "companions": _COMPANIONS,
    }


def _asked(request: MemoryQuery, scoped: Scoped, lengths: Mapping[str, int]) -> Asked:
    user = scoped.identity.user_id if speaks_of_self(request.query) else None
    names = {*named_words(request.query), *own_names(user)}
    return Asked(names=names, self_id=user, top_k=request.top_k, rag_lengths=lengths)


def _is_asked(key: str, request: MemoryQuery) -> bool:
    return request.scopes is None or split_scope_key(key)[0] in request.scopes


def _words(request: MemoryQuery) -> dict[str, Any]:
    asked = "" if request.search_type == "semantic" else request.query.translate(_STRAIGHT)
    return {"question": asked, "phrases": _QUOTED.findall(asked)}


def _for_branches(
    weights: Weights, request: MemoryQuery, vector: Sequence[float] | None, settings: Settings
) -> Weights:
    """A branch that is left out leaves its share to the other; ranks count alike in both."""
    if request.search_type == "semantic":
        return replace(weights, text=0, meaning=1)
    if request.search_type == "text" or vector is None:
        return replace(weights, text=1, meaning=0)
    return replace(weights, text=0.5, meaning=0.5) if settings.fusion == "rrf" else weights


def _filters(request: MemoryQuery, scoped: Scoped) -> dict[str, Any]:
    wanted = request.filters.model_dump()
    return {
        **wanted,
        "threshold": request.threshold,
        "agent_id": scoped.identity.agent_id,
        "of_agent": wanted["agent_id"],
        "importance_min": wanted["importance_min"] or 1,
        "importance_max": wanted["importance_max"] or 5,
    }


def _told_apart(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Candidate], Links]:
    """Candidates, and what each is related to: rows that have no more than the last two columns."""
    links: dict[UUID, list[tuple[UUID, float]]] = {}
    for item_id, *_, other, strength in (row for row in rows if row[-1] is not None):
        links.setdefault(item_id, []).append((other, strength))
    return [Candidate(*row[:-2]) for row in rows if row[-1] is None], links
