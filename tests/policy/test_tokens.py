"""Lengths are counted as the database counts them; ranked items fill a budget without ever breaking it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.formation.triggers import ROLE_WEIGHTS, weighted_tokens
from mnemic.policy.text.shape import count_tokens, fit
from mnemic.state.kinds import Role


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 8, 2), ("👩" * 5, 2)]
)
def test_tokens_are_a_quarter_of_the_characters_rounded_up(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@pytest.mark.parametrize(("role", "weighted"), [("user", 10.0), ("tool", 5.0), ("assistant", 2.0), ("other", 5.0)])
def test_a_users_words_weigh_most(role: Role, weighted: float) -> None:
    assert weighted_tokens(role, "x" * 40) == pytest.approx(weighted)


@given(st.text(), st.text())
def test_two_texts_together_never_count_more_than_apart(a: str, b: str) -> None:
    assert max(count_tokens(a), count_tokens(b)) <= count_tokens(a + b) <= count_tokens(a) + count_tokens(b)


@given(st.sampled_from(sorted(ROLE_WEIGHTS)), st.text())
def test_nobody_weighs_more_than_a_user(role: Role, text: str) -> None:
    assert 0 <= weighted_tokens(role, text) <= weighted_tokens("user", text) == count_tokens(text)


def test_a_long_item_is_passed_over_for_smaller_ones_behind_it() -> None:
    assert fit(["aaa", "bbbbbbbbb", "cc", "d", "e"], tokens=len, budget=6) == ["aaa", "cc", "d"]


@given(st.lists(st.integers(0, 50)), st.integers(-5, 200))
def test_the_budget_holds_and_rank_order_stays(sizes: list[int], budget: int) -> None:
    ranked = list(enumerate(sizes))
    chosen = fit(ranked, tokens=lambda item: item[1], budget=budget)
    assert sum(size for _, size in chosen) <= max(0, budget)
    assert chosen == sorted(chosen)
    left = budget - sum(size for _, size in chosen)
    assert all(size > left for rank, size in ranked if (rank, size) not in chosen)
