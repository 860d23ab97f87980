"""The details that may not change unnoticed are found, and only these."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.details import details


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


def test_ignored_names_do_not_count_in_any_case() -> None:
    assert details("Mara Lopes met Teodor.", ignore=["mara lopes"]).names == ("Teodor",)


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
