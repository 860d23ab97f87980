"""Ranked items fill a budget without ever breaking it."""

from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.recall.budget import fit


def test_a_long_item_is_passed_over_for_smaller_ones_behind_it() -> None:
    assert fit(["aaa", "bbbbbbbbb", "cc", "d", "e"], tokens=len, budget=6) == ["aaa", "cc", "d"]


def test_nothing_fits_an_empty_budget() -> None:
    assert fit([3, 1], tokens=int, budget=0) == []


@given(st.lists(st.integers(0, 50)), st.integers(-5, 200))
def test_the_budget_holds_and_rank_order_stays(sizes: list[int], budget: int) -> None:
    ranked = list(enumerate(sizes))
    chosen = fit(ranked, tokens=lambda item: item[1], budget=budget)
    assert sum(size for _, size in chosen) <= max(0, budget)
    assert chosen == sorted(chosen)
    left = budget - sum(size for _, size in chosen)
    assert all(size > left for rank, size in ranked if (rank, size) not in chosen)
