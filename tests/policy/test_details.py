"""The details that may not change unnoticed are found in one form, and a rewritten text is asked what it kept."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.policy.text.details import MONTHS, details, find_dates, find_numbers, kept_share, missing_details


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
        ("Then Ana and Liv's mother came to Berlin-based Moorbook.", ("Ana", "Liv", "Berlin", "Moorbook")),
        ("Harbour is the team. The Harbour team meets.", ("Harbour",)),
        ("I think I'm late, and I’ve no plan for Monday or Mondays in May.", ()),
        ("PLEASE STOP using NASA data on an iPhone.", ("NASA", "iPhone")),
        ("Will lives in Oslo. Hope moved.", ("Will", "Oslo", "Hope")),
        ("Will you come? Hope you do.", ()),
        ("Ana met ANA.", ("Ana",)),
    ],
)
def test_a_name_is_a_capital_that_its_place_does_not_explain(text: str, names: tuple[str, ...]) -> None:
    assert details(text).names == names


TURNED = """Ana is not allergic.|Ana doesn’t smoke.|ana dont smoke|Ana no longer flies.|tea without milk|no milk
neither tea nor milk|Ana stopped smoking.|Ana used to smoke.|Ana dislikes milk.|The meeting was cancelled."""
PLAIN = "Ana is allergic.|Ana notes a knot.|house no. 5|Ana wears a hat.|"


def test_a_turned_statement_is_negated_and_a_plain_one_is_not() -> None:
    assert [text for text in TURNED.replace("\n", "|").split("|") if not details(text).negated] == []
    assert [text for text in PLAIN.split("|") if details(text).negated] == []


@given(st.text())
def test_details_are_distinct_and_never_empty(text: str) -> None:
    found = details(text)
    for kind in (found.names, found.numbers, found.dates, found.quoted):
        assert len(set(kind)) == len(kind)
        assert all(kind)
    assert all(name in text for name in found.names)


@pytest.mark.parametrize(
    "written",
    [
        *("2026-03-05", "2026/3/5", "05/03/2026", "5.3.2026", "05/03/26"),
        *("5 March 2026", "5th of March, 2026", "5. Mar 2026", "March 5, 2026", "march 5th 2026", "Mar. 5, 2026"),
    ],
)
def test_a_day_has_one_form(written: str) -> None:
    assert find_dates(f"The pilot starts on {written}, they say.").dates == ("5 March 2026",)


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("due 3/25/2026", ("25 March 2026",)),
        ("on the 5th of March", ("5 March",)),
        ("in march 2026", ("March 2026",)),
        ("early in May, on Mondays and wednesday's", ("May", "Monday", "Wednesday")),
        ("wednesday 15 april", ("Wednesday", "15 April")),
        ("May I march on? You may.", ()),
        ("version 1.5.2, ratio 45/45/2026, at 10:30", ()),
        ("on March 5 and 5 March", ("5 March",)),
    ],
)
def test_dates_are_as_exact_as_written(text: str, dates: tuple[str, ...]) -> None:
    assert find_dates(text).dates == dates


@given(st.dates(min_value=date(1000, 1, 1)), st.sampled_from(["{d} {m} {y}", "{m} {d}, {y}", "{iso}", "{d}/{n}/{y}"]))
def test_every_day_is_found_in_every_form(day: date, form: str) -> None:
    month = MONTHS[day.month - 1]
    written = form.format(d=day.day, m=month, y=day.year, iso=day.isoformat(), n=day.month)
    found = find_dates(f"Ana came on {written}.")
    assert found.dates == (f"{day.day} {month} {day.year}",)
    assert find_numbers(found.rest) == ()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2 cats, two cats, Twelve dogs", ("2", "12")),
        ("no one, the one, one of them, one day", ()),
        ("has one cat", ("1",)),
        ("1,000 berths, 1000 berths", ("1000",)),
        ("$5, 5 dollars, 5 USD", ("$5",)),
        ("3.50 euros and €3.5", ("€3.5",)),
        ("7pm, 7 p.m., 7 PM, 7 am", ("7pm", "7am")),
        ("6:00, 06:00, 6 o'clock, 9:30 and 09:30", ("6", "9:30")),
        ("5 %, 5 percent", ("5%",)),
        ("5kg, 5 kg", ("5kg",)),
        ("the 3rd", ("3",)),
        ("-5 degrees, 3-5 people", ("-5", "3", "5")),
        ("room b8 or 4b", ("b8", "4b")),
        ("version 1.5.2, 100 and 1.0", ("1.5.2", "100", "1")),
    ],
)
def test_numbers_have_one_form_with_their_unit(text: str, numbers: tuple[str, ...]) -> None:
    assert find_numbers(text) == numbers


@given(st.integers(0, 10**30))
def test_every_whole_number_is_found_grouped_or_not(number: int) -> None:
    assert find_numbers(f"It has {number} parts.") == find_numbers(f"It has {number:,} parts.") == (str(number),)


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


@given(st.lists(st.text() | st.sampled_from(SOURCES), max_size=4))
def test_a_text_keeps_itself(sources: list[str]) -> None:
    assert all(missing_details([source], source) == () for source in sources)
