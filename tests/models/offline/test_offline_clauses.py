"""A sentence of several statements: the plain ones are kept, whatever stands beside them."""

import pytest

from tests.models.offline.speech import FactsOf

KEPT = {
    "I'm allergic to nuts so the cake is off unless they bake another.": ["Mara is allergic to nuts."],
    "i live in bergen and i'd like to see more of it": ["Mara lives in bergen."],
    "I have two cats, and if I find time I'll get a dog.": ["Mara has two cats."],
    "We are out of milk because I'm vegan.": [],
    "Two desks at least because I work from home.": ["Mara works from home."],
    "I play the cello, the neighbour hates it.": ["Mara plays the cello."],
    "Fridays I am in the pottery studio every week.": ["Mara is in the pottery studio every week on Fridays."],
    "I've got a dentist appointment on the Monday the 9th.": ["Mara has a dentist appointment on 9 March 2026."],
    "I'm flying to Rome on the 21st of may": ["Mara is flying to Rome on 21 May 2026."],
    "i have an exam on friday": ["Mara has an exam on Friday 6 March 2026."],
    "I moved to Ghent on Saturday.": ["Mara moved to Ghent on Saturday 28 February 2026."],
}


@pytest.mark.parametrize(("said", "stored"), KEPT.items(), ids=KEPT.keys())
def test_the_plain_clauses_are_kept(facts_of: FactsOf, said: str, stored: list[str]) -> None:
    assert [fact.content for fact in facts_of(said)] == stored


DROPPED = [
    "If Ana moves to Oslo, I live in Rome.",
    "I live in Rome, he says.",
    "I hope Ana comes and Bo lives in Rome.",
    "I live in Rome if all goes well and I work as a nurse in Oslo.",
    "Maybe my brother lives in Rome.",
    "Teo told me that my sister lives in Rome and my brother lives in Oslo.",
]


@pytest.mark.parametrize("said", DROPPED)
def test_what_a_condition_or_a_report_reaches_is_not(facts_of: FactsOf, said: str) -> None:
    assert [fact.content for fact in facts_of("Ana and Bo met Ana, then Bo.", said)] == []


def test_a_thing_of_the_team_needs_no_article(facts_of: FactsOf) -> None:
    facts = facts_of("Database will be Postgres 16, don't ask.", group="Harbor")

    assert [(fact.content, fact.scope) for fact in facts] == [("Harbor's database will be Postgres 16.", "group")]


def test_a_party_of_a_child_is_no_thing_of_the_team(facts_of: FactsOf) -> None:
    facts = facts_of("pelle turns six soon", "pelle's party is on saturday", group="Harbor")

    assert [(fact.content, fact.scope) for fact in facts] == [("Pelle's party is on Saturday 7 March 2026.", "user")]


@pytest.mark.parametrize("said", ["We live on the ground floor in Altona.", "We don't own a car."])
def test_a_home_is_no_matter_of_the_team(facts_of: FactsOf, said: str) -> None:
    facts = facts_of(said, group="Harbor")

    assert [(fact.subject, fact.scope) for fact in facts] in ([("Mara", "user")], [])


def test_not_again_stays_not_again(facts_of: FactsOf) -> None:
    assert "again" in facts_of("I won't run a marathon again in May.")[0].content
