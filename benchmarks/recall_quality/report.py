"""The figures as tables: by question category, and by budget."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from benchmarks.recall_quality.locomo import CATEGORIES, Question
from benchmarks.recall_quality.metrics import BUDGETS, Score, mean
from benchmarks.recall_quality.storing import Kept

#: The adversarial questions ask for what was never said; the other four make the mean.
ANSWERABLE = (1, 2, 3, 4)
TITLES: Mapping[Kept, str] = {
    "messages": "All messages alone",
    "sources": "Facts, and the messages they were formed from (keep_messages: sources)",
    "all": "Facts, and all messages (keep_messages: all)",
}


def by_category(kept: Kept, questions: Sequence[Question], scores: Mapping[str, Sequence[Score]]) -> Table:
    """Recall@5, @10, @20 and NDCG@10 in percent, over categories 1 to 4 and for each."""
    table = Table(title=f"{TITLES[kept]}: recall@5 · @10 · @20 · NDCG@10")
    table.add_column("", no_wrap=True)
    groups: dict[str, Sequence[int]] = {"1-4": ANSWERABLE}
    groups |= {f"{number} {name}": (number,) for number, name in CATEGORIES.items()}
    for name, numbers in groups.items():
        count = sum(question.category in numbers for question in questions)
        table.add_column(f"{name} ({count})", justify="right", no_wrap=True)
    for way, given in scores.items():
        table.add_row(way, *(_figures(_mean_of(numbers, questions, given)) for numbers in groups.values()))
    return table


def by_budget(kept: Kept, questions: Sequence[Question], scores: Mapping[str, Sequence[Score]]) -> Table:
    """Share of the evidence inside so many tokens, in percent, over categories 1 to 4."""
    table = Table("", *(f"{budget:,}" for budget in BUDGETS), title=f"{TITLES[kept]}: evidence inside so many tokens")
    for way, given in scores.items():
        table.add_row(way, *(_percent(share) for share in _mean_of(ANSWERABLE, questions, given).inside))
    return table


def _mean_of(numbers: Sequence[int], questions: Sequence[Question], scores: Sequence[Score]) -> Score:
    return mean([one for question, one in zip(questions, scores, strict=True) if question.category in numbers])


def _figures(score: Score) -> str:
    return " ".join(_percent(share) for share in (score.recall_5, score.recall_10, score.recall_20, score.ndcg_10))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
