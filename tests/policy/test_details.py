"""The details that may not change unnoticed are found, and only these; a rewritten text is asked what it kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.details import details, kept_share, missing_details


def test_all_details_of_a_sentence() -> None:
    found = details('Marit told Einar Hovde on 5 March 2026 that the 48 plates say "Mind the gap!", not "Stop".')
    assert found.names == ("Marit", "Einar", "Hovde")
    assert found.numbers == ("48",)
    assert found.dates == ("5 March 2026",)
    assert found.quoted == ("mind the gap", "stop")
    assert found.negated


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Yesterday the team met. Running late is common.", ()),
        ("Skagvik is a harbour.", ("Skagvik",)),
        ("Then Ana and Liv's mother came to Berlin-based Moorbook.", ("Ana", "Liv", "Berlin", "Moorbook")),
        ("Harbour is the team. The Harbour team meets.", ("Harbour",)),
        ("I think I'm late, and I’ve no plan for Monday or Mondays in May.", ()),
        ("PLEASE STOP using NASA data on an iPhone.", ("NASA", "iPhone")),
        ("Will lives in Oslo. Hope moved.", ("Will", "Oslo", "Hope")),
        ("Will you come? Hope you do.", ()),
        ("Ana met ANA.", ("Ana",)),
        ("", ()),
    ],
)
def test_a_name_is_a_capital_that_its_place_does_not_explain(text: str, names: tuple[str, ...]) -> None:
    assert details(text).names == names


@pytest.mark.parametrize(
    "text",
    [
        "Ana is not allergic.",
        "Ana doesn’t smoke.",
        "ana dont smoke",
        "Ana never flies.",
        "Ana no longer flies.",
        "tea without milk",
        "no milk",
        "neither tea nor milk",
        "Ana stopped smoking.",
        "Ana used to smoke.",
        "Ana dislikes milk.",
        "The meeting was cancelled.",
    ],
)
def test_a_turned_statement_is_negated(text: str) -> None:
    assert details(text).negated


@pytest.mark.parametrize("text", ["Ana is allergic.", "Ana notes a knot.", "house no. 5", "Ana wears a hat.", ""])
def test_a_plain_statement_is_not_negated(text: str) -> None:
    assert not details(text).negated


@given(st.text())
def test_details_are_distinct_and_never_empty(text: str) -> None:
    found = details(text)
    for kind in (found.names, found.numbers, found.dates, found.quoted):
        assert len(set(kind)) == len(kind)
        assert all(kind)
    assert all(name in text for name in found.names)


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
