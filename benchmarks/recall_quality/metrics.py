"""How good a ranking is: recall, NDCG, and what of the evidence fits into a budget of tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from mnemic.memory.text.shape import fit

BUDGETS = (250, 500, 1000, 2000, 4000)


@dataclass(frozen=True, kw_only=True)
class Returned:
    """One returned item: the turns that count as found with it, and the tokens of its line in a context."""

    turn_ids: frozenset[str]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of one question, or the mean over several; shares from 0 to 1."""

    recall_5: float
    recall_10: float
    recall_20: float
    ndcg_10: float
    #: Share of the evidence inside each of BUDGETS.
    inside: tuple[float, ...]


def score(returned: Sequence[Returned], evidence: frozenset[str]) -> Score:
    """Of one question's ranking, best first."""
    inside = [fit(returned, tokens=lambda item: item.tokens, budget=budget) for budget in BUDGETS]
    return Score(
        recall_5=_recall(returned[:5], evidence),
        recall_10=_recall(returned[:10], evidence),
        recall_20=_recall(returned[:20], evidence),
        ndcg_10=_ndcg(returned[:10], evidence),
        inside=tuple(_recall(items, evidence) for items in inside),
    )


def mean(scores: Sequence[Score]) -> Score:
    """Return the mean of every figure; zeros if there is no question."""
    count = max(1, len(scores))
    figures = {
        field.name: sum(getattr(one, field.name) for one in scores) / count
        for field in fields(Score)
        if field.name != "inside"
    }
    return Score(
        **figures, inside=tuple(sum(one.inside[place] for one in scores) / count for place in range(len(BUDGETS)))
    )


def _recall(items: Sequence[Returned], evidence: frozenset[str]) -> float:
    found = frozenset[str]().union(*(item.turn_ids for item in items))
    return len(found & evidence) / len(evidence)


def _ndcg(items: Sequence[Returned], evidence: frozenset[str]) -> float:
    """Count 1 for an item with a turn that no item before it had."""
    gained, left = 0.0, set(evidence)
    for place, item in enumerate(items):
        if left & item.turn_ids:
            gained += 1 / math.log2(place + 2)
            left -= item.turn_ids
    return gained / sum(1 / math.log2(place + 2) for place in range(min(10, len(evidence))))
