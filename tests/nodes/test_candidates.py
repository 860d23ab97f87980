"""Which known facts a decision is shown, and in whose memory it may close them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mnemic.memory.formation.candidates import (
    SelectionLimits,
    changeable_keys,
    decide_input,
    numbered_facts,
    select_candidates,
)
from mnemic.memory.formation.decisions import apply_decisions
from mnemic.memory.formation.invalidations import without_unrelated
from mnemic.memory.runtime.categories import load_categories
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.scoping import ScopeResolver
from mnemic.memory.text.bands import Bands
from mnemic.memory.text.shape import count_tokens
from mnemic.prompts.formation.decide import Decision
from mnemic.service.memory import Mnemic
from mnemic.state.formation import SimilarFact
from mnemic.state.records import NewMemory
from mnemic.state.settings import Settings
from mnemic.storage import memories
from tests.support.loopback import LoopbackModel, Request
from tests.support.scripted import (
    DECISIONS,
    DIMENSIONS,
    FACTS,
    asked,
    contents,
    decision,
    decisions,
    fact,
    facts,
    last_prompt,
    turns,
)
from tests.support.worlds import MORNING, direction, identity, memory, message, remember

ANA = identity("ana", session="s1", groups=["crew"])
#: What an embedder takes for its opposite.
MOVED = "Ana moved to Bergen on 2 May."
LATER = MORNING + timedelta(days=60)


def far_apart(request: Request) -> list[list[float]]:
    """What is new lies opposite to all that is known, and other facts in between."""
    return [[*direction(180 if MOVED in text else 0, size=DIMENSIONS)] for text in request["input"]]


async def known(resources: Resources, *new: NewMemory) -> None:
    """Facts as an earlier run stored them."""
    vectors = {item.id: direction(90 if "Filler" in item.content else 0, size=DIMENSIONS) for item in new}
    also = [item.scope_key for item in new]
    await remember(resources.database, ANA, *new, also=also, vectors=vectors, model=resources.embedder.name)


async def learn(memory: Mnemic, model: LoopbackModel, *texts: str, made: Any = (), **given: Any) -> None:
    model.answer_embeddings(far_apart)
    model.answer(FACTS, facts(*(fact(text, **{"category": "tasks", **given}) for text in texts)))
    model.answer(DECISIONS, decisions(*made))
    await memory.observe(ANA, turns("Ana moved to Bergen on 2 May and sold her flat.", "Well.", "So it is.", "Good."))
    await memory.form(ANA)


def about(content: str, *, key: str = "user:ana", subject: str = "Ana", **given: Any) -> NewMemory:
    user = key.removeprefix("user:") if key.startswith("user:") else None
    return replace(memory(content, key=key, subject_user=user), subject=subject, **given)


FILLER = [about(f"Filler number {place}.", category="goals") for place in range(30)]
HIDDEN = {
    "other words": about("She rents a flat above a bakery.", category="tasks"),
    "another language": about("Ana wohnt in Oslo.", importance=4),
    "a word in common": about("The harbor of Bergen is closed.", key="group:crew", subject="Harbor", category="tasks"),
    "the group's": about("Ana sits in the Oslo office.", key="group:crew", category="tasks"),
}


@pytest.mark.parametrize("old", HIDDEN.values(), ids=HIDDEN)
async def test_what_a_new_fact_may_end_is_shown_however_far_its_words_lie(
    memory: Mnemic, model: LoopbackModel, resources: Resources, old: NewMemory
) -> None:
    await known(resources, old, *FILLER)
    async with resources.database.transaction(ANA) as tx:  # control: by their cosine alone none is among so many
        name, vector = resources.embedder.name, [direction(180, size=DIMENSIONS)]
        near = await memories.find_nearest(tx, ["user:ana"], vector, model=name, limit=12)
    assert old.id not in {item.id for item in near}

    await learn(memory, model, MOVED)
    assert f"]: {old.content}" in last_prompt(model, DECISIONS)


async def test_both_sides_are_shown_whole_and_facts_of_one_batch_are_not_known(
    memory: Mnemic, model: LoopbackModel, resources: Resources
) -> None:
    await known(resources, HIDDEN["the group's"], about("Ana is shy]; core.", kind="reflection"))
    await learn(memory, model, MOVED, "Ana sold her flat.")

    shown = last_prompt(model, DECISIONS).partition("<facts>\n")[2]
    assert shown.startswith(f"new 1 [2026-03-02; user Ana]: {MOVED}\n  known 1 [2026-03-02; group Crew]: ")
    assert "\nnew 2 [user Ana]: Ana sold her flat.\n  known above: 1\n" in shown
    assert shown.count("  known ") == 2
    assert "- [2026-03-02; user Ana; reflection]: Ana is shy]; core." in last_prompt(model, DECISIONS)


async def test_several_facts_of_several_scope_keys_end_at_once_and_stay_readable(
    memory: Mnemic, model: LoopbackModel, resources: Resources
) -> None:
    texts = ("She rents a flat in Bergen.", "Ana wohnt in Bergen.")
    office = replace(HIDDEN["the group's"], content="Ana sits in the Bergen office.")
    await known(resources, *(about(text, category="tasks") for text in texts), office)
    await learn(memory, model, MOVED, made=[decision(1, "DELETE", 1, 2, 3)])

    everything = await memory.memories(ANA, ["fact"], with_closed=True)
    closed = [item for item in everything if item.state == "superseded"]
    assert (len(closed), len({item.superseded_by for item in closed})) == (3, 1)
    (new,) = [item for item in everything if item.state == "active"]
    assert new.scope_key == "group:crew"  # where the others see what took the place of theirs


@pytest.mark.parametrize("event", ["UPDATE", "NONE"])
async def test_nothing_is_carried_from_one_scope_key_to_another(
    memory: Mnemic, model: LoopbackModel, resources: Resources, event: str
) -> None:
    office = HIDDEN["the group's"]
    await known(resources, office)
    await learn(memory, model, MOVED, made=[decision(1, event, 1, text=MOVED)])
    assert await contents(memory, ANA) == sorted([office.content, MOVED])


OTHERS = {
    "somebody else's": (about("Ana lives in Oslo.", key="user:bo"), {}),
    "everybody's": (about("Ana lives in Oslo.", key="agent:harbor"), {}),
    "the group's, in confidence": (about("Ana lives in Oslo.", key="group:crew"), {"private": True}),
}


@pytest.mark.parametrize(("old", "given"), OTHERS.values(), ids=OTHERS)
async def test_what_a_person_says_ends_nothing_of_others(
    memory: Mnemic, model: LoopbackModel, resources: Resources, old: NewMemory, given: dict[str, Any]
) -> None:
    await known(resources, old)
    await learn(memory, model, MOVED, **given)
    assert DECISIONS not in asked(model)


def test_in_which_scope_keys_a_fact_may_end_anything() -> None:
    crew = identity("ana", session="s1", groups=["crew", "pier"])
    said = [message(MOVED), message("So did I.", user="bo")]
    own, groups, users = ["user:ana"], ["group:crew", "group:pier"], ["user:ana", "user:bo"]
    telling = ScopeResolver(said, crew, ["Crew", "Pier"], Settings(), load_categories().personal)
    for key, category, keys in (
        ("user:ana", "tasks", [*own, *groups]),
        ("user:ana", "profile", own),
        ("group:crew", "tasks", ["group:crew", *users]),
        ("agent:harbor", "tasks", ["agent:harbor", *groups, *users]),
    ):
        sources = (said[0].id,)
        new = about(MOVED, key=key, category=category, provenance="asserted", source_message_ids=sources, said=MOVED)
        assert changeable_keys([new], telling) == [keys]
    fact = about(MOVED, category="tasks", provenance="asserted", source_message_ids=(said[0].id,), said=MOVED)
    for away in (
        {"private": True}, {"source_message_ids": (said[1].id,)}, {"source_message_ids": ()}, {"said": None}
    ):  # fmt: skip
        new = replace(fact, **away)
        assert changeable_keys([new], telling) == [own]


def similar(place: int, content: str, number: int, key: str = "user:ana", similarity: float = 0.6) -> SimilarFact:
    new = about(content, key=key)
    return SimilarFact(
        place=place, id=type(new.id)(int=number), version=1, scope_key=key, subject="Ana",
        subject_user_id=new.subject_user_id, category=new.category, content=content, dated=MORNING, protected=False,
        private=False, importance=3, similarity=similarity,
    )  # fmt: skip


@pytest.mark.parametrize("most", [0, 30, 100, 200, 10_000])
def test_the_likeliest_of_each_come_first_and_the_tokens_hold(most: int) -> None:
    new = [about(f"Ana has boat {place}.") for place in range(4)]
    near = {
        item.id: [similar(place, f"Ana has {'old ' * rank}boat {rank}.", rank + 1) for rank in range(place, place + 12)]
        for place, item in enumerate(new)
    }
    kept = select_candidates(new, near, {}, SelectionLimits(0.5, min_facts=1, max_tokens=most))
    lines = decide_input(new, kept, {}).variables()["facts"].splitlines()
    assert sum(count_tokens(line) for line in lines if line.startswith("  known ") and "above" not in line) <= most
    assert all(near[new_id][: len(rows)] == rows or most < 10_000 for new_id, rows in kept.items())
    assert (kept == near) == (most == 10_000)
    if most >= 100:
        assert all(kept[item.id][0] == near[item.id][0] for item in new)


@pytest.mark.parametrize(("least", "shown"), [(0, [7, 8]), (2, [7, 8]), (4, [0, 1, 7, 8]), (99, [*range(9)])])
def test_candidates_are_close_by_words_or_meaning_and_then_the_likeliest(least: int, shown: list[int]) -> None:
    new = about("Ana has sold the dinghy Petrel.")
    far = [similar(0, f"Ana likes {what}.", number, similarity=0.1) for number, what in enumerate(["tea", *"bcdefg"])]
    close = [similar(0, "Ana paints Petrel, a dinghy.", 7, similarity=0.1), similar(0, "Sie segelt gern.", 8)]
    kept = select_candidates([new], {new.id: [*far, *close]}, {}, SelectionLimits(0.55, least, 1000))
    assert sorted(old.id.int for old in kept[new.id]) == shown


LAMP = about("Ana bought a red lamp.", category="activity")
UNRELATED = {
    "a single far fact": ([("Ana is allergic to peanuts.", 0.64)], [1]),
    "the nearest of many": ([(f"Ana {what}.", 0.6 + place / 100) for place, what in enumerate(
        ["lives in a flat", "is a nurse", "drives a van", "plays a violin", "swims on Sundays"])], [5]),
    "all of them": ([("Ana is allergic to peanuts.", 0.6), ("Ana sings.", 0.7), ("Ana has a dog.", 0.65)], [1, 2, 3]),
}  # fmt: skip


@pytest.mark.parametrize("event", ["DELETE", "UPDATE", "NONE"])
@pytest.mark.parametrize(("old", "named"), UNRELATED.values(), ids=UNRELATED)
def test_a_fact_that_has_nothing_but_its_person_in_common_is_not_named(
    old: list[tuple[str, float]], named: list[int], event: Any
) -> None:
    near = {LAMP.id: [similar(0, text, place, similarity=at) for place, (text, at) in enumerate(old, start=1)]}
    made = [Decision(fact=1, reason="", event=event, known=named, text=LAMP.content)]
    related, refused = without_unrelated([LAMP], near, made, Bands(auto=0.95, check=0.69, fallback=0.67))
    outcome = apply_decisions([LAMP], near, related, max_closings=9)
    assert (outcome.supersessions, [*outcome.facts.values()], refused) == ({}, [LAMP], len(named))


RELATED = {
    "a word": ("Ana's red lamp is broken.", 0.1, "activity", 0.7),
    "a number": ("Ana paid 4471 for it.", 0.1, "activity", 0.7),
    "far nearer than others": ("She owns another lantern.", 0.75, "goals", 0.6),
    "nearer than others in its category": ("She owns another lantern.", 0.66, "activity", 0.6),
    "another language": ("Ela comprou uma lanterna.", 0.61, "goals", 0.6),
}


@pytest.mark.parametrize(("new", "at", "category", "others"), RELATED.values(), ids=RELATED)
def test_a_word_a_number_or_nearness_in_comparison_lets_a_fact_be_closed(
    new: str, at: float, category: str, others: float
) -> None:
    fact_ = about(new, category="activity")
    old = replace(similar(0, "Ana bought a red lamp for 4471 crowns.", 1, similarity=at), category=category)
    rest = [
        similar(0, f"Ana has {what}.", n, similarity=others - n / 50) for n, what in enumerate(["a cat", "hens"], 2)
    ]
    made = [Decision(fact=1, reason="", event="DELETE", known=[1], text="")]
    bands = Bands(auto=0.95, check=0.69, fallback=0.67)
    assert without_unrelated([fact_], {fact_.id: [old, *rest]}, made, bands) == (made, 0)


def test_a_fact_below_two_new_ones_has_one_number_and_is_closed_once() -> None:
    new = [about("Ana moved to Bergen."), about("Ana has left Oslo.")]
    old, other = similar(0, "Ana lives in Oslo.", 1), similar(1, "Ana lives by the sea.", 2)
    near = {new[0].id: [old], new[1].id: [other, replace(old, place=1)]}
    assert [[*row.candidates] for row in numbered_facts(new, near)] == [[1], [2, 1]]

    made = [Decision(fact=number, reason="", event="DELETE", known=[1], text="") for number in (1, 2)]
    outcome = apply_decisions(new, near, made, max_closings=3)
    assert {old_id: change.new_id for old_id, change in outcome.supersessions.items()} == {old.id: new[0].id}
    foreign = [Decision(fact=1, reason="", event="DELETE", known=[2], text="")]
    assert apply_decisions(new, near, foreign, max_closings=3).supersessions == {}
