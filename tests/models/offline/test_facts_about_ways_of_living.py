"""Arrangements, roles, duties, and what is over: kept where they last, left out where they pass."""

import pytest

from tests.models.offline.speech import FactsOf

FACTS: dict[str, dict[str, str | None]] = {
    "home and belongings": {
        "I rent a small room near Utrecht.": "Mara rents a small room near Utrecht.",
        "I don't own a bike.": "Mara doesn't own a bike.",
        "I pay 640 euros a month.": "Mara pays 640 euros a month.",
        "I keep three goats behind the barn.": "Mara keeps three goats behind the barn.",
    },
    "work and time": {
        "I work four days a week.": "Mara works four days a week.",
        "I do the bookkeeping.": "Mara does the bookkeeping.",
        "I'm responsible for the servers.": "Mara is responsible for the servers.",
        "I'm at the workshop on Tuesdays.": "Mara is at the workshop on Tuesdays.",
        "I cycle to the office.": "Mara cycles to the office.",
        "I'm the only person with the alarm code.": "Mara is the only person with the alarm code.",
    },
    "health": {
        "I have to avoid salt.": "Mara has to avoid salt.",
        "I carry an inhaler.": "Mara carries an inhaler.",
        "I get seasick on ferries.": "Mara gets seasick on ferries.",
        "I pulled a muscle on 2 March.": "Mara pulled a muscle on 2 March 2026.",
        "I'm being operated on 20 March.": "Mara is being operated on 20 March 2026.",
    },
    "over": {
        "I stopped the coffee.": "Mara stopped the coffee.",
        "I gave up drinking.": "Mara gave up drinking.",
        "I'm not doing the triathlon anymore.": "Mara isn't doing the triathlon anymore.",
        "I won't fly.": None,
        "I will not pay extra fees.": "Mara won't pay extra fees.",
        "I eat eggs.": "Mara eats eggs.",
    },
    "arrangements": {
        "I have the vet on Thursday.": "Mara has the vet on Thursday 5 March 2026.",
        "I booked a table at Nonna.": "Mara booked a table at Nonna.",
        "I ordered 30 chairs.": "Mara ordered 30 chairs.",
        "I caught a huge pike on Sunday.": "Mara caught a huge pike on Sunday 1 March 2026.",
    },
    "skills and clubs": {
        "I play by ear.": "Mara plays by ear.",
        "I can't read music.": "Mara can't read music.",
        "I'm a member of the rowing club.": "Mara is a member of the rowing club.",
        "I sing in a choir.": "Mara sings in a choir.",
        "I work best in the morning.": "Mara works best in the morning.",
    },
}
CASES = {said: kept for family in FACTS.values() for said, kept in family.items()}


@pytest.mark.parametrize(("said", "kept"), CASES.items(), ids=CASES.keys())
def test_a_lasting_statement_is_kept(facts_of: FactsOf, said: str, kept: str | None) -> None:
    assert [draft.content for draft in facts_of(said)] == ([kept] if kept else [])


TEAM = {
    "We go to Postgres 18 in April.": "Harbor goes to Postgres 18 in April 2026.",
    "We are live in Bergen since Monday.": "Harbor is live in Bergen since Monday 2 March 2026.",
    "The staging is called puddle.": "Harbor's staging is called puddle.",
    "We don't want dark patterns.": "Harbor doesn't want dark patterns.",
}


@pytest.mark.parametrize(("said", "kept"), TEAM.items(), ids=TEAM.keys())
def test_what_a_team_settles_is_kept(facts_of: FactsOf, said: str, kept: str) -> None:
    assert [draft.content for draft in facts_of("Teo: Morning!", said, group="Harbor")] == [kept]


@pytest.mark.parametrize(
    "said",
    [
        "I'm sitting on a crate.",
        "I need help.",
        "I'll ask them.",
        "I do the same.",
        "I'm tired of it.",
        "I have to take a break.",
        "I caught a cold.",
        "I'm not feeling well anymore than you.",
        "I'm allergic to meetings.",
        "I don't want to bother you.",
        "I'm back in a minute.",
        "I won't give up on you.",
        "I ordered a bigger one.",
    ],
)
def test_what_passes_is_left_out(facts_of: FactsOf, said: str) -> None:
    assert facts_of(said) == []


def test_a_second_sentence_behind_a_comma_is_not_part_of_the_first(facts_of: FactsOf) -> None:
    found = facts_of("I practise every evening at 7, the neighbour bangs on the wall.")

    assert [draft.content for draft in found] == ["Mara practises every evening at 7."]
