"""A rewritten text is asked what it kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.retention import kept_share, missing_details

SOURCES = ["Ana met Liv on 5 March 2026 in Oslo.", 'Ana has 3 boats, one called "Old Tar".']


def test_what_is_missing_is_named_as_it_was_written() -> None:
    text = "Ana has three boats, one of them old, and met Liv in March."
    assert missing_details(SOURCES, text) == ("Oslo", "5 March 2026", "Tar", "old tar")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Ana came on 5 March.", "Ana came on 2026-03-05."),
        ("Ana came in 2026.", "Ana came on 5 March 2026."),
        ("Ana came on Mondays.", "Each monday ana comes."),
        ('The branch is "main".', "Main is the branch."),
        ("Ana has two cats.", "Ana: 2 cats"),
        ("Liv’s boat", "the boat of Liv"),
        ("nothing to keep", ""),
    ],
)
def test_a_detail_is_kept_in_another_form(source: str, text: str) -> None:
    assert missing_details([source], text) == ()
    assert kept_share([source], text) == 1.0


@pytest.mark.parametrize(
    ("source", "text", "missing"),
    [
        ("Ana came on 5 March 2026.", "Ana came on 5 March.", "5 March 2026"),
        ("Ana has 5 cats.", "Ana has 15 cats, on 5 March.", "5"),
        ("We met Ana.", "We met Anatol.", "Ana"),
        ('They said "art".', "They started.", "art"),
    ],
)
def test_half_a_detail_is_missing(source: str, text: str, missing: str) -> None:
    assert missing in missing_details([source], text)


def test_the_share_counts_distinct_details() -> None:
    assert kept_share(["Ana met Liv.", "ANA met Liv and Teodor, Ana says."], "Ana") == pytest.approx(1 / 3)


@given(st.lists(st.text(), max_size=4), st.text())
def test_the_share_and_the_list_agree(sources: list[str], text: str) -> None:
    share = kept_share(sources, text)
    assert 0 <= share <= 1
    assert (share == 1) == (missing_details(sources, text) == ())


@given(st.text())
def test_a_text_keeps_itself(text: str) -> None:
    assert missing_details([text], text) == ()


@given(st.lists(st.sampled_from([*SOURCES, "Teodor left in 2021.", "Liv, 8, plays."]), max_size=4))
def test_sources_side_by_side_are_kept(sources: list[str]) -> None:
    assert kept_share(sources, " ".join(sources)) == 1.0
