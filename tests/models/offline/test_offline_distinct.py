"""Statements that differ in two details tell of two things: neither takes the other's place."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.models.offline.compare import relation
from tests.models.offline.test_offline_refinement import merged_text

NAMES = [
    "Ann",
    "Bob",
    "Cem",
    "Dora Lind",
    "Emil",
    "Fay",
    "Ghent",
    "Oslo",
    "New York",
    "Bergen",
    "Paris",
    "Bonn, Germany",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "March", "May", "June", "October"]
DETAILS = {
    "number": st.integers(min_value=2, max_value=2030).map(str),
    "name": st.sampled_from(NAMES),
    "day": st.sampled_from(DAYS),
    "date": st.builds("{} {} {}".format, st.integers(1, 28), st.sampled_from(MONTHS), st.integers(2024, 2028)),
}
#: Statements with places for details, each of its kind.
SHAPES = [
    ("Ida keeps {} bottles in cellar {}.", "number number"),
    ("Ida keeps {} bottles of {} in cellar {}.", "number name number"),
    ("Ida has {} cats in {}.", "number name"),
    ("Ida wants {} tickets for the show in {}.", "number name"),
    ("Ida likes to sail to island number {} with {} friends.", "number number"),
    ("Ida takes {} tablets of {} every morning.", "number name"),
    ("Ida wants pallet {} to be delivered to gate {} on working days.", "number number"),
    ("Ida wants to be reminded that invoice {} is due on {}.", "number date"),
    ("Ida's deadline for invoice {} is {}.", "number date"),
    ("Ida's flight to {} is on {}.", "name date"),
    ("Ida's budget for {} is {} euros.", "name number"),
    ("Room {} of Ida's hotel is cleaned by {} every day.", "number name"),
    ("Ida rents {} rooms in {}.", "number name"),
    ("Ida works for {} on {}s.", "name day"),
    ("Ida swims with {} on {}s.", "name day"),
    ("Ida flies to {} on {}.", "name date"),
    ("Ida met {} on {}.", "name date"),
    ("Ida prefers tea with {} on {}s.", "name day"),
    ("Ida prefers room {} with {} guests.", "number number"),
    ("Ida doesn't eat with {} on {}s.", "name day"),
    ("Ida dislikes {} guests from {}.", "number name"),
    ("Harbor uses Redis {} for {}.", "number name"),
]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Two statements of one shape that share no detail in its place."""
    shape, kinds = draw(st.sampled_from(SHAPES))
    drawn = [
        draw(st.tuples(DETAILS[kind], DETAILS[kind]).filter(lambda two: two[0] != two[1])) for kind in kinds.split()
    ]
    return shape.format(*(new for new, _ in drawn)), shape.format(*(old for _, old in drawn))


@given(pairs())
def test_statements_that_differ_in_two_details_stand_beside_each_other(said: tuple[str, str]) -> None:
    assert relation(*said) == "differs"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Ida has 3 cats.", "Ida has 2 cats."),
        ("Ida keeps 7 bottles in cellar 20.", "Ida keeps 4 bottles in cellar 20."),
        ("Ida takes 2 tablets of aspirin every morning.", "Ida takes 1 tablets of aspirin every morning."),
        ("Ida lives in Bergen.", "Ida lives in Oslo."),
        ("Ida lives in New York.", "Ida lives in Bonn, Germany."),
        ("Ida moved to Bergen in May 2026.", "Ida moved to Oslo in June 2020."),
        ("Ida flies to Rome on 9 May 2026 at 5 pm.", "Ida flies to Rome on 7 May 2026 at 6 pm."),
        ("Ida's deadline for invoice 1001 is 9 May 2026.", "Ida's deadline for invoice 1001 is 4 May 2026."),
        ("Ida swims with Bob on Fridays.", "Ida swims with Bob on Mondays."),
        ("Ida's standup is at 10.", "Ida's standup is at 9."),
        # one value of two numbers or names
        ("Ida's phone number is 555 1234.", "Ida's phone number is 444 9876."),
        ("Ida's address is 5 Pine Road, Leeds.", "Ida's address is 12 Oak Street, York."),
        # a date may be told roughly
        ("Ida's wedding is in early June 2027.", "Ida's wedding is on 5 May 2027."),
        ("Ida's deadline is at the end of June.", "Ida's deadline is 3 May."),
        ("Ida eats fish.", "Ida is a vegetarian."),
    ],
)
def test_what_changed_in_one_detail_still_takes_the_place_of_the_old(new: str, old: str) -> None:
    assert relation(new, old) == "contradicts"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        # a number behind a noun tells one thing from another
        ("Ida keeps 4 bottles in cellar 21.", "Ida keeps 4 bottles in cellar 20."),
        ("Room 102 of Ida's hotel is cleaned by Ann.", "Room 101 of Ida's hotel is cleaned by Ann."),
        ("Ida's deadline for invoice 1002 is 4 May 2026.", "Ida's deadline for invoice 1001 is 4 May 2026."),
        ("Ida has 3 cats in the house.", "Ida has 2 cats in the garden."),
        ("Harbor's test database is Postgres 15.", "Harbor's main database is Postgres 16."),
        ("Ida eats fish.", "Ida cooks vegetarian for guests."),
        ("Ida has 2 cats.", "Ida has 2 dogs and 3 cats."),
        ("Ida flew to Oslo in May.", "Ida flew to Oslo in June."),
        # told roughly again
        ("Ida's wedding is in early May 2027.", "Ida's wedding is on 5 May 2027."),
        # an attribute of several names, of another owner or at another time
        ("Ida uses Valkey for caching.", "Bo uses Redis for caching."),
        (
            "Ida's interview is on 5 May 2027 at Yard with Bo.",
            "Ida's interview is on 9 May 2027 at Harbor with Cem.",
        ),
        (
            "Ida's interview is on 5 May 2027 at Yard with Bo.",
            "Ida's interview is on 5 May 2027 at Harbor with Cem.",
        ),
    ],
)
def test_in_doubt_they_differ(new: str, old: str) -> None:
    assert relation(new, old) == "differs"


@pytest.mark.parametrize(
    ("verb", "rests"),
    [
        ("keeps", [f"{place + 4} bottles in cellar {place + 20}" for place in range(12)]),
        ("wants", [f"{place + 3} chairs in room {place + 101}" for place in range(12)]),
        ("likes to sail", [f"to island number {place} with {place + 2} friends" for place in range(12)]),
        ("wants", [f"{place + 2} tickets for shows in {name}" for place, name in enumerate(NAMES)]),
        ("takes", [f"{place + 1} tablets of {name} every morning" for place, name in enumerate(NAMES)]),
    ],
)
def test_a_refinement_keeps_statements_that_are_alike(verb: str, rests: Sequence[str]) -> None:
    text = merged_text(*(f"Ida {verb} {rest}." for rest in rests), subject="Ida")
    assert [rest for rest in rests if rest not in text] == []
