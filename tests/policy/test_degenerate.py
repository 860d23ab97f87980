"""Loops of a language model are recognised, and ordinary repetition is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.degenerate import is_degenerate


@pytest.mark.parametrize(
    "text",
    [
        "tea " * 50,
        "Marit likes tea. " * 3,
        "Marit likes tea.\nAna is here.\nMarit likes tea.\nLiv is there.\nmarit likes tea",
        "and so on and so on and so on and so on",
        "the user the user the user the user",
        "a" * 40,
        " ".join(["red", "blue", "green", "grey"][n % 4 - n % 3] for n in range(60)),
    ],
)
def test_a_loop_is_degenerate(text: str) -> None:
    assert is_degenerate(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Marit is very, very, very tired.",
        "No. No. No. Marit said no.",
        "Marit deploys on Tuesday. Teodor deploys on Wednesday. Nkechi deploys on Thursday.",
        "| a | b |\n|-----------------------------------|---|\n| 0 0 0 0 0 0 0 0 |",
        "Run 1 took 5 minutes. Run 2 took 5 minutes. Run 3 took 5 minutes.",
        "他喜欢喝茶。她喜欢喝咖啡。",
    ],
)
def test_ordinary_text_is_not(text: str) -> None:
    assert not is_degenerate(text)


@given(st.lists(st.text(st.sampled_from("abcdefgh"), min_size=2, max_size=6), unique=True, min_size=1, max_size=80))
def test_text_of_different_words_is_never_degenerate(words: list[str]) -> None:
    assert not is_degenerate(" ".join(words))


@given(st.text(st.sampled_from("abcdefgh"), min_size=2, max_size=6), st.integers(6, 60))
def test_one_word_over_and_over_always_is(word: str, times: int) -> None:
    assert is_degenerate(f"{word} " * times)
