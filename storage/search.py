"""The one search statement. The caller owns the transaction; the question's vector was made before it began."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mnemic.policy.ranking import MOST_RELATED, WEIGHTS, Weights, as_values, named_words, own_names, speaks_of_self
from mnemic.state.identity import split_scope_key
from mnemic.state.query import MemoryQuery
from mnemic.state.records import Explanation, Found
from mnemic.state.settings import Settings
from mnemic.storage.database import Scoped
from mnemic.storage.statements import load_statements
from mnemic.storage.vectors import half_vector

_SQL = load_statements("search")
_QUOTED = re.compile(r'"([^"]{2,200})"')
#: In a database of locale C, Postgres takes typographic quotes for letters of the word beside them.
_STRAIGHT = str.maketrans("“”„", '"""')
#: Kinds that any search looks through; reflections have an entry that counts once they are absorbed.
_KINDS: Final = ("fact", "episode", "insight", "reflection", "message")
#: Kinds that come only where their category is asked for by name.
_ON_REQUEST: Final = {"procedural": "procedure", "journal": "journal"}
#: A message beyond one piece is no short way to say what its facts say.
_LONG_BYTES: Final = 1000


#: What is added to a score, as the statement names it; the rest of a row are a result's own fields.
_ADDED: Final = ("insight", "named", "important", "source", "neighbour", "in_session", "repeated", "related")


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
    values = {
        **_words(request, scoped),
        **_filters(request, scoped),
        **as_values(_for_branches(weights, request, vector, settings)),
        "vector": None if vector is None else half_vector(vector),
        "model": model,
        "scope_keys": [key for key in scoped.scope_keys if _is_asked(key, request)],
        "kinds": [*_KINDS, *(kind for name, kind in _ON_REQUEST.items() if name in (request.categories or ()))],
        "categories": list(categories),
        "rag_lengths": json.dumps(
            {name: most for name, most in rag_lengths.items() if most < request.top_k + MOST_RELATED}
        ),
        "threshold": request.threshold,
        "candidates": settings.search_candidates,
        "fusion": settings.fusion,
        "rrf_k": settings.rrf_k,
        "top_k": request.top_k,
        "long_bytes": _LONG_BYTES,
        "most_related": MOST_RELATED,
    }
    return [_found(row) for row in await scoped.rows(dict, _SQL["search"], values)]


def _is_asked(key: str, request: MemoryQuery) -> bool:
    return request.scopes is None or split_scope_key(key)[0] in request.scopes


def _words(request: MemoryQuery, scoped: Scoped) -> dict[str, Any]:
    asked = "" if request.search_type == "semantic" else request.query.translate(_STRAIGHT)
    user = scoped.identity.user_id if speaks_of_self(request.query) else None
    return {
        "question": asked,
        "phrases": _QUOTED.findall(asked),
        "named": [*named_words(request.query), *own_names(user)],
        "self": user,
    }


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
        "filtered": any(value is not None for value in wanted.values()),
        "agent_id": scoped.identity.agent_id,
        "of_agent": wanted["agent_id"],
        "importance_min": wanted["importance_min"] or 1,
        "importance_max": wanted["importance_max"] or 5,
    }


def _found(row: dict[str, Any]) -> Found:
    added = {name: value for name in _ADDED if (value := row.pop(name))}
    return Found(
        explanation=Explanation(
            text=row.pop("text"),
            similarity=row.pop("similarity"),
            fused=row.pop("fused"),
            from_source="source" in added,
            boosts=added,
        ),
        **row,
    )
