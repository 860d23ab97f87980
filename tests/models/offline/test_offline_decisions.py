"""A new fact beside the known ones: added, more detailed, the same, or in the place of an older one."""

from datetime import UTC, datetime, timedelta

import pytest

from mnemic.models import offline
from mnemic.prompts.decide import DecideInput, Decision, KnownFact, NewFact

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def decided(new: str, *known: str, known_later: bool = False) -> Decision:
    dated = NOW + timedelta(days=1 if known_later else -30)
    shown = tuple(
        KnownFact(number=number, content=content, dated=dated, similarity=0.8)
        for number, content in enumerate(known, start=2)
    )
    given = DecideInput(facts=(NewFact(number=1, content=new, dated=NOW, known=shown),))
    return offline.decide(given).decisions[0]


CONTRADICTIONS = {
    "home": ("Mara lives in Bergen.", "Mara lives in Oslo."),
    "a move": ("Mara moved from Oslo to Bergen.", "Mara lives in Oslo."),
    "employer": ("Mara works at Vexa.", "Mara works at Nordlys."),
    "an end of work": ("Mara no longer works at Nordlys.", "Mara works at Nordlys."),
    "a job left": ("Mara quit Mara's job at Nordlys.", "Mara works at Nordlys."),
    "an end": ("Mara stopped drinking coffee.", "Mara drinks two coffees every morning."),
    "a denial": ("Mara doesn't eat fish.", "Mara eats fish."),
    "an assertion": ("Mara eats fish.", "Mara doesn't eat fish."),
    "a turned taste": ("Mara hates olives.", "Mara loves olives."),
    "a denied taste": ("Mara doesn't like olives.", "Mara likes olives."),
    "diet": ("Mara is vegan.", "Mara is vegetarian."),
    "deadline": ("The deadline for Harbor is on 6 March 2026.", "The deadline for Harbor is on 2 March 2026."),
    "a moved deadline": ("The Harbor deadline moved to 6 March 2026.", "The deadline for Harbor is 2 March 2026."),
    "tool": ("Harbor uses Redis for caching.", "Harbor uses Memcached for caching."),
    "weekday": ("Mara plays tennis on Thursdays.", "Mara plays tennis on Tuesdays."),
    "plan": ("Mara is flying to Rome on 9 May 2026.", "Mara is flying to Rome on 7 May 2026."),
    "preference": ("Mara prefers tea.", "Mara prefers coffee."),
    "order of preference": ("Mara prefers tea over coffee.", "Mara prefers coffee over tea."),
    "favourite": ("Mara's favourite colour is green.", "Mara's favourite colour is blue."),
    "age": ("Mara is 35.", "Mara is 34 years old."),
    "a birthday": ("Ana turns eight on 2 June 2026.", "Mara's niece Ana is seven."),
    "a diet given up": ("Mara eats fish again.", "Mara has been a vegetarian since 2011."),
    "another number": ("Mara works four days a week.", "Mara works five days a week."),
    "more of them": ("Mara has four goats.", "Mara keeps three goats on Mara's farm."),
    "a price": ("Harbor's hosting costs 90 euros a month.", "Harbor's hosting costs 70 euros a month."),
    "a version": ("Harbor goes to Redis 8 in May 2026.", "Harbor's cache will be Redis 7."),
    "a moved wedding": ("Ana's wedding is on 9 May 2026.", "Mara's sister Ana marries on 2 May 2026 in Turin."),
    "a moved operation": (
        "Mara's father's operation was on 9 April 2026.",
        "Mara's father is being operated on 2 April 2026.",
    ),
    "a moved lesson": ("Mara's flute lesson moved to Mondays.", "Mara has flute lessons on Fridays."),
    "a plan dropped": (
        "Mara isn't doing the autumn triathlon anymore.",
        "Mara signed up for the autumn triathlon on 4 October 2026.",
    ),
    "another flat": ("Mara moved on Saturday 2 May 2026 to Lier.", "Mara rents a room in Ghent."),
}


@pytest.mark.parametrize(("new", "old"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_contradiction_takes_the_place_of_the_old_fact(new: str, old: str) -> None:
    decision = decided(new, old)

    assert (decision.event, decision.known, decision.text) == ("DELETE", [2], new)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Mara has a dog named Rex.", "Mara has a dog."),
        ("Mara lives in Oslo with two cats.", "Mara lives in Oslo."),
        ("Mara went to Rome with Teo in 2024.", "Mara went to Rome."),
    ],
)
def test_more_detail_updates_and_less_changes_nothing(new: str, old: str) -> None:
    assert decided(new, old) == Decision(fact=1, event="UPDATE", known=[2], text=new)
    assert decided(old, new) == Decision(fact=1, event="NONE", known=[2], text="")


SEPARATE = [
    ("Mara's sister lives in Bergen.", "Mara lives in Oslo."),
    ("Mara is allergic to nuts.", "Mara is allergic to cats."),
    ("Mara doesn't eat fish on Fridays.", "Mara eats fish."),
    ("Harbor uses Redis for queues.", "Harbor uses Memcached for caching."),
    ("Mara ran a marathon on 9 May 2026.", "Mara ran a marathon on 7 May 2025."),
    ("Mara prefers dark mode.", "Mara prefers coffee."),
    ("Mara's favourite food is pasta.", "Mara's favourite colour is blue."),
    ("Mara's dog is called Rex.", "Mara's cat is called Tom."),
    ("Mara has two kids.", "Mara has three cats."),
    ("Teo loves olives.", "Mara hates olives."),
    ("Harbor uses Redis 7.", "Harbor uses Postgres 16."),
    ("Mara eats rice.", "Mara is vegetarian."),
    ("Mara ran 12 km.", "Mara ran 10 km."),
    ("Ana's wedding is on 9 May 2026.", "Mara's brother Teo marries on 2 May 2026."),
]


@pytest.mark.parametrize(("new", "old"), SEPARATE)
def test_in_doubt_a_fact_is_added(new: str, old: str) -> None:
    assert decided(new, old) == Decision(fact=1, event="ADD", known=[], text=new)


@pytest.mark.parametrize(("new", "old"), [*CONTRADICTIONS.values(), *SEPARATE])
def test_the_same_sentence_again_is_none(new: str, old: str) -> None:
    assert decided(new, old, new).event in {"NONE", "DELETE"}
    assert decided(new, new) == Decision(fact=1, event="NONE", known=[2], text="")


def test_every_contradicted_fact_is_named() -> None:
    decision = decided("Mara lives in Bergen.", "Mara lives in Oslo.", "Mara loves tea.", "Mara lives in Turin.")

    assert (decision.event, decision.known) == ("DELETE", [2, 4])


def test_what_was_said_later_is_not_corrected_by_what_was_said_before() -> None:
    assert decided("Mara lives in Bergen.", "Mara lives in Oslo.", known_later=True).event == "ADD"


def test_one_decision_for_each_fact_in_order() -> None:
    facts = tuple(
        NewFact(number=number, content=f"Mara has {number} dogs.", dated=NOW, known=()) for number in (5, 3, 9)
    )

    assert [decision.fact for decision in offline.decide(DecideInput(facts=facts)).decisions] == [5, 3, 9]
