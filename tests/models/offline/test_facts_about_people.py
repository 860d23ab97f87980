"""What people plainly say of themselves and of others becomes a dated sentence in the third person."""

import pytest

from tests.models.offline.speech import FactsOf

FACTS = {
    "identity": {
        "My name's Mara and I'm 34.": ["Mara's name is Mara.", "Mara is 34."],
        "My birthday is on 14 June.": ["Mara's birthday is on 14 June."],
        "I was born in Turin.": ["Mara was born in Turin."],
        "I'm married.": ["Mara is married."],
    },
    "home": {
        "I live in Bergen with my partner Teo and our two cats.": [
            "Mara lives in Bergen with Mara's partner Teo and Mara's two cats."
        ],
        "So, I moved from Oslo to Bergen last month because my job changed.": [
            "Mara moved from Oslo to Bergen in February 2026 because Mara's job changed."
        ],
        "I grew up in a small village near Turin.": ["Mara grew up in a small village near Turin."],
        "i'm from Uppsala": ["Mara is from Uppsala."],
    },
    "work": {
        "I work as a nurse at the Lindgren clinic.": ["Mara works as a nurse at the Lindgren clinic."],
        "I've been working at Vexa for three years.": [
            "Mara has been working at Vexa for three years as of March 2026."
        ],
        "I'm a backend engineer at Nordlys": ["Mara is a backend engineer at Nordlys."],
        "Oh, and I got a new job at Vexa, starting in May!": ["Mara got a new job at Vexa, starting in May 2026."],
        "I no longer work at Nordlys.": ["Mara no longer works at Nordlys."],
    },
    "people and pets": {
        "My sister Ana lives in Porto and has two kids.": ["Mara's sister Ana lives in Porto and has two kids."],
        "My parents live in Turin.": ["Mara's parents live in Turin."],
        "my girlfriend's allergic to cats": ["Mara's girlfriend is allergic to cats."],
        "My dog's name is Rex.": ["Mara's dog's name is Rex."],
        "I have two cats and a rabbit.": ["Mara has two cats and a rabbit."],
        "Our son Leo turned 5 last week.": ["Mara's son Leo turned 5 in the week of 23 February 2026."],
    },
    "health and diet": {
        "I'm allergic to peanuts, so please be careful.": ["Mara is allergic to peanuts."],
        "I've been vegetarian since 2019.": ["Mara has been vegetarian since 2019."],
        "I can't eat gluten.": ["Mara can't eat gluten."],
        "I'm lactose intolerant but it's fine.": ["Mara is lactose intolerant."],
        "I broke my wrist yesterday.": ["Mara broke Mara's wrist on 3 March 2026."],
        "I quit smoking two years ago.": ["Mara quit smoking in 2024."],
    },
    "tastes": {
        "I love live jazz.": ["Mara loves live jazz."],
        "I prefer window seats.": ["Mara prefers window seats."],
        "I really can't stand olives.": ["Mara can't stand olives."],
        'I loved "The Grey Pier" by Ann Loe.': ['Mara loved "The Grey Pier" by Ann Loe.'],
        "Baking helps me relax.": ["Baking helps Mara relax."],
        "I'm a big fan of crime novels.": ["Mara is a big fan of crime novels."],
        "My favourite book is Momo.": ["Mara's favourite book is Momo."],
    },
    "skills and habits": {
        "I speak Norwegian and a bit of Spanish.": ["Mara speaks Norwegian and a bit of Spanish."],
        "I play the cello.": ["Mara plays the cello."],
        "Every Tuesday I play badminton with my brother.": ["Mara plays badminton with Mara's brother every Tuesday."],
        "I wake up at 6 every morning.": ["Mara wakes up at 6 every morning."],
        "Usually I cycle to work.": ["Mara usually cycles to work."],
        "I'm learning to play the piano.": ["Mara is learning to play the piano."],
    },
    "plans, events, goals, limits": {
        "I'm flying to Rome next Friday.": ["Mara is flying to Rome on Friday 13 March 2026."],
        "I have a dentist appointment on the 14th.": ["Mara has a dentist appointment on 14 March 2026."],
        "Tomorrow I'm starting a pottery class.": ["Mara is starting a pottery class on 5 March 2026."],
        "I ran the Lakeside marathon in 2023.": ["Mara ran the Lakeside marathon in 2023."],
        "Last week, I started a blog on bread.": ["Mara started a blog on bread in the week of 23 February 2026."],
        "Joined a choir last Monday!": ["Mara joined a choir on Monday 2 March 2026."],
        "Last weekend I bought a used canoe.": ["Mara bought a used canoe on the weekend of 28 February 2026."],
        "I want to learn Portuguese this year.": ["Mara wants to learn Portuguese in 2026."],
        "I'm training for a half marathon in September.": ["Mara is training for a half marathon in September 2026."],
        "I can't do meetings on Fridays.": ["Mara can't do meetings on Fridays."],
    },
}
CASES = [(said, stored) for family in FACTS.values() for said, stored in family.items()]


@pytest.mark.parametrize(("said", "stored"), CASES, ids=[said for said, _ in CASES])
def test_a_plain_statement_becomes_a_fact(facts_of: FactsOf, said: str, stored: list[str]) -> None:
    facts = facts_of(said)

    assert [fact.content for fact in facts] == stored
    assert all(fact.messages == [1] and fact.scope == "user" and fact.provenance == "asserted" for fact in facts)


def test_a_person_named_in_the_conversation_may_be_the_subject(facts_of: FactsOf) -> None:
    facts = facts_of("I had lunch with Ingrid.", "Ingrid is allergic to shellfish.", "Painting is hard.")

    assert [(fact.subject, fact.content) for fact in facts] == [("Ingrid", "Ingrid is allergic to shellfish.")]


@pytest.mark.parametrize(
    ("said", "category", "importance", "subject"),
    [
        ("I'm allergic to peanuts.", "constraints", 5, "Mara"),
        ("I live in Bergen.", "profile", 4, "Mara"),
        ("My sister Ana lives in Porto.", "profile", 4, "Ana"),
        ("Ingrid is my boss.", "relationships", 4, "Ingrid"),
        ("I'm flying to Rome tomorrow.", "event", 4, "Mara"),
        ("I love live jazz.", "preferences", 2, "Mara"),
        ("I'm planning a trip to Crete.", "goals", 3, "Mara"),
    ],
)
def test_category_importance_and_subject(
    facts_of: FactsOf, said: str, category: str, importance: int, subject: str
) -> None:
    fact = facts_of(said, "Ask Ingrid about it.")[0]

    assert (fact.category, fact.importance, fact.subject) == (category, importance, subject)


def test_everybody_speaks_for_themselves(facts_of: FactsOf) -> None:
    facts = facts_of("Mara: I live in Bergen.", "Teo: I live in Turin.")

    assert [(fact.content, fact.messages) for fact in facts] == [
        ("Mara lives in Bergen.", [1]),
        ("Teo lives in Turin.", [2]),
    ]


@pytest.mark.parametrize(
    "said",
    [
        "Between us, I'm pregnant.",
        "I'm pregnant. Please don't tell anyone.",
        "This stays between us. I'm pregnant.",
        "I'm pregnant. It's confidential.",
    ],
)
def test_what_is_said_in_confidence_is_private(facts_of: FactsOf, said: str) -> None:
    assert [(fact.content, fact.private) for fact in facts_of(said)] == [("Mara is pregnant.", True)]


def test_a_confidence_does_not_spread_over_the_whole_message(facts_of: FactsOf) -> None:
    facts = facts_of("Between us, I'm pregnant. The weather is lovely. I live in Bergen.")

    assert [fact.private for fact in facts] == [True, False]


@pytest.mark.parametrize(
    ("correction", "day"),
    [
        ("Sorry, not Monday, Tuesday.", "Tuesday 10 March 2026"),
        ("Tuesday, not Monday!", "Tuesday 10 March 2026"),
        ("Actually, I meant Tuesday.", "Tuesday 10 March 2026"),
        ("Thanks for listening.", "Monday 9 March 2026"),
        ("Sorry, not Oslo, Bergen.", "Monday 9 March 2026"),
    ],
)
def test_a_correction_puts_the_fact_right(facts_of: FactsOf, correction: str, day: str) -> None:
    facts = facts_of("I start my new job on Monday.", correction)

    assert [fact.content for fact in facts] == [f"Mara starts Mara's new job on {day}."]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("I'm flying to Oslo on Saturday.", ["Mara is flying to Oslo on Saturday 7 March 2026."]),
        (
            "I'm flying to Oslo on Saturday, too.",
            ["Mara is flying to Bergen on Friday 6 March 2026.", "Mara is flying to Oslo on Saturday 7 March 2026."],
        ),
        (
            "I'm working with Teo.",
            ["Mara is flying to Bergen on Friday 6 March 2026.", "Mara is working with Teo."],
        ),
    ],
)
def test_a_whole_statement_put_right_takes_the_place_of_the_one_before(
    facts_of: FactsOf, said: str, stored: list[str]
) -> None:
    facts = facts_of("I'm flying to Bergen on Friday.", f"Actually, {said}")

    assert [fact.content for fact in facts] == stored


def test_without_a_word_of_correction_both_hold(facts_of: FactsOf) -> None:
    assert len(facts_of("I'm flying to Bergen on Friday.", "I'm flying to Oslo on Saturday.")) == 2


@pytest.mark.parametrize("said", ["Hi, I'm Bo. My name is Bo Hansen.", "My name is Bo Hansen. I'm Bo."])
def test_nobody_is_said_to_be_who_they_are(facts_of: FactsOf, said: str) -> None:
    assert [fact.content for fact in facts_of(said, speaker="Bo")] == ["Bo's name is Bo Hansen."]


def test_what_is_said_later_replaces_what_was_said_before(facts_of: FactsOf) -> None:
    facts = facts_of("I live in Oslo.", "I love tea.", "I live in Bergen now.", "I love tea!")

    assert [fact.content for fact in facts] == ["Mara loves tea.", "Mara lives in Bergen."]


def test_the_most_important_facts_stay_when_there_are_too_many(facts_of: FactsOf) -> None:
    facts = facts_of("I love jazz music.", "I'm allergic to peanuts.", "I live in Bergen.", max_facts=2)

    assert [fact.content for fact in facts] == ["Mara is allergic to peanuts.", "Mara lives in Bergen."]
    assert facts_of("I live in Bergen.", max_facts=0) == []
