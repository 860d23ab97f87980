"""Close facts are the same only when their words agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.formation.bands import Band, Bands, band_of_pair, same_fact
from mnemic.state.errors import ConfigurationError

BANDS = Bands()


@pytest.mark.parametrize(
    ("similarity", "band"),
    [
        (1.0, "auto"),
        (0.95, "auto"),
        (0.9499, "check"),
        (0.70, "check"),
        (0.6999, "fallback"),
        (0.55, "fallback"),
        (0.5499, "new"),
        (-0.2, "new"),
    ],
)
def test_a_band_begins_at_its_threshold(similarity: float, band: Band) -> None:
    assert band_of_pair("Ana has 2 cats.", "Ana has two cats.", similarity, BANDS) == band


@pytest.mark.parametrize(
    ("auto", "check", "fallback"),
    [(0.7, 0.9, 0.5), (0.9, 0.5, 0.6), (1.1, 0.7, 0.5), (0.9, 0.7, -0.1), (float("nan"), 0.7, 0.5)],
)
def test_bands_that_do_not_rise_are_refused(auto: float, check: float, fallback: float) -> None:
    with pytest.raises(ConfigurationError, match="bands must rise"):
        Bands(auto=auto, check=check, fallback=fallback)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ana is allergic to nuts.", "Ana is not allergic to nuts."),
        ("Ana has 2 cats.", "Ana has 3 cats."),
        ("Ana meets the team at 7am.", "Ana meets the team at 7pm."),
        ("The pilot starts on 15 April.", "The pilot starts on 15 May."),
        ("Ana prefers tea to coffee.", "Ana prefers coffee to tea."),
        ('The branch is called "main".', 'The branch is called "dev".'),
        ("Ana smokes.", "Ana used to smoke."),
        ("Ana has a cat.", "Ana has a cat since 2021."),
        ("Ana's left knee hurts.", "Ana's right knee hurts."),
        ("Ana has few friends.", "Ana has a few friends."),
        ("Ana writes C.", "Ana writes C++."),
        ("Ana takes .5 mg.", "Ana takes 5 mg."),
        ("Ana loves Turkey.", "Ana loves turkey."),
    ],
)
def test_one_other_word_tells_facts_apart(a: str, b: str) -> None:
    assert not same_fact(a, b)
    assert not same_fact(b, a)
    assert band_of_pair(a, b, 0.99, BANDS) == "check"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ana has two cats.", "Ana has 2 cats"),
        ("Ana isn't coming.", "Ana is not coming."),
        ("Ana likes tea, coffee and milk.", "Ana likes tea, coffee, and milk"),
    ],
)
def test_the_same_words_written_otherwise_agree(a: str, b: str) -> None:
    assert same_fact(a, b)


@given(st.text(), st.text())
def test_agreement_is_mutual_and_every_fact_agrees_with_itself(a: str, b: str) -> None:
    assert same_fact(a, a)
    assert same_fact(a, b) == same_fact(b, a)
