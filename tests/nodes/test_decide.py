"""What a new fact does to those near it, never more than it was shown; and to which of them it is related."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest

from mnemic.prompts.formation.decide import Decision
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.records import Memory
from tests.support.loopback import LoopbackModel, Request
from tests.support.matrix import mostly_thorough
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
    say,
    scripted_memory,
)
from tests.support.server import Clone
from tests.support.worlds import direction, identity

ANA = identity("ana", session="s1")
OSLO = "Ana lives in Oslo with two cats."
BERGEN = "Ana lives in Bergen with two cats."


async def know(memory: Mnemic, model: LoopbackModel, *texts: str, session: str = "before") -> None:
    """Facts of an earlier session, stored without a question."""
    model.answer(DECISIONS, decisions())
    model.answer(FACTS, facts(*map(fact, texts)))
    await say(
        memory, identity("ana", session=session), *[f"{session} {text}" for text in texts], *["Well."] * len(texts)
    )
    assert await contents(memory, ANA) == sorted(texts)


async def learn(
    memory: Mnemic, model: LoopbackModel, texts: Sequence[str], *made: Decision, who: Identity = ANA
) -> None:
    """Facts of a new session, on which the model decides as told."""
    model.answer(FACTS, facts(*[fact(text, place) for place, text in enumerate(texts, start=1)]))
    model.answer(DECISIONS, decisions(*made))
    await say(memory, who, *[f"now {text}" for text in texts], *["Well."] * len(texts))


async def closed(memory: Mnemic) -> list[Memory]:
    return [item for item in await memory.memories(ANA, ["fact"], with_closed=True) if item.state != "active"]


async def test_a_contradiction_leaves_one_current_fact_and_the_old_one_readable(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await know(memory, model, OSLO)
    await learn(memory, model, [BERGEN], decision(1, "DELETE", 1, text=BERGEN))

    (new,) = await memory.memories(ANA, ["fact"])
    (old,) = await closed(memory)
    assert (old.content, new.content) == (OSLO, BERGEN)
    assert (old.state, old.superseded_by, old.valid_until) == ("superseded", new.id, new.valid_from)
    closed_by, (added,) = (await memory.history.events(ANA, old.id))[-1], await memory.history.events(ANA, new.id)
    assert (closed_by.event, added.event, added.after) == ("SUPERSEDE", "ADD", BERGEN)
    assert closed_by.op_id == added.op_id
    assert {(item.actor, item.reason, item.session_id) for item in (closed_by, added)} == {("ana", "formation", "s1")}
    found = [item.content for item in await memory.query(ANA, "Where does Ana live?")]
    assert BERGEN in found
    assert OSLO not in found


async def test_facts_of_one_moment_stand_in_the_order_of_their_messages(memory: Mnemic, model: LoopbackModel) -> None:
    """Hosts often give no times; in which order a model lists the facts tells nothing."""
    await know(memory, model, GOAT)
    model.answer(FACTS, facts(fact(BERGEN, 2), fact(OSLO, 1)))
    await memory.observe(ANA, [{"role": "user", "content": text} for text in ("Oslo.", "Bergen.", "Well.", "Well.")])
    await memory.form(ANA)
    prompt = last_prompt(model, DECISIONS)
    assert prompt.index(f"]: {OSLO}") < prompt.index(f"]: {BERGEN}")


TURIN = "Ana lives in Turin with two cats."
AGAIN = "Ana lives in Oslo with both cats."
DOG, BIRD = "Ana lives in Oslo with a dog.", "Ana lives in Oslo with a bird."
ALL = "Ana lives in Oslo with two cats, a dog and a bird."
CAT, CATS = "Ana lives in Oslo with one cat.", "Ana lives in Oslo with cats."
GOAT = "A brown goat called Alma sleeps in the old barn behind the mill."
#: What is known, what is new, what is decided on it; which facts live then, and which are closed.
DECIDED: dict[str, tuple[list[str], list[str], list[Decision], list[str], list[str]]] = {
    "an update": ([OSLO], [DOG], [decision(1, "UPDATE", 1, text=ALL)], [ALL], [OSLO]),
    "what is closed already": (
        [OSLO],
        [DOG, BIRD],
        [decision(1, "UPDATE", 1, text=ALL), decision(2, "UPDATE", 1, text=BIRD + " And a dog.")],
        [BIRD, ALL],
        [OSLO],
    ),
    "an end that leaves something": (
        ["Ana lives in Oslo with two cats."], ["Ana lives in Turin."], [decision(1, "DELETE", 1, text=TURIN)], [TURIN],
        ["Ana lives in Oslo with two cats."],
    ),
    "an end with a claim of the model's": (
        [OSLO], ["Ana lives in Turin."], [decision(1, "DELETE", 1, text="Ana lives in Turin with Bo.")],
        ["Ana lives in Turin."], [OSLO],
    ),
    "several at once": ([OSLO, CAT], [BERGEN], [decision(1, "DELETE", 1, 2)], [BERGEN], [CAT, OSLO]),
    "one of two that has nothing to do with it": (
        [OSLO, GOAT], [BERGEN], [decision(1, "DELETE", 1, 2)], [BERGEN, GOAT], [OSLO]
    ),
    "a repeat": ([OSLO], [AGAIN], [decision(1, "NONE", 1)], [OSLO], []),
    "a repeat and an end of the same": (
        [OSLO], [AGAIN, TURIN], [decision(1, "NONE", 1), decision(2, "DELETE", 1, text=TURIN)], [TURIN], [OSLO]
    ),
    "facts of one batch": (
        [], [OSLO, BERGEN], [decision(1, "DELETE", 1), decision(2, "DELETE", 1)], [BERGEN, OSLO], []
    ),
    "who returns to an old truth in one breath": (
        [OSLO], [BERGEN, OSLO], [decision(1, "DELETE", 1)], [BERGEN, OSLO], []
    ),
    "who names an old truth, and then its end": (
        [OSLO], [OSLO, BERGEN], [decision(1, "DELETE", 1)], [BERGEN], [OSLO]
    ),
    "a repeat that says more": ([OSLO], [BERGEN], [decision(1, "NONE", 1)], [BERGEN, OSLO], []),
    "an update that says less": (
        [OSLO], [BERGEN], [decision(1, "UPDATE", 1, text="Ana lives with two cats in a flat.")], [BERGEN, OSLO], []
    ),
    # 1, the nearest, says that already
    "an update to another one's text": (
        [OSLO, CAT], [CATS], [decision(1, "UPDATE", 2, text=OSLO)], [CATS, CAT, OSLO], []
    ),
}  # fmt: skip
#: What is said of Bergen where Oslo is known, and adds it.
UNTRUSTED: dict[str, list[Decision]] = {
    "unknown numbers": [decision(1, "DELETE", 99, 0, -1, text=BERGEN)],
    "no decision": [],
    "an update in the first person": [decision(1, "UPDATE", 1, text="I live in Bergen.")],
    "unnamed": [decision(1, "DELETE", text=BERGEN)],
    "empty": [decision(1, "UPDATE", 1, text="")],
    "unknown repeat": [decision(1, "NONE", 99)],
    "foreign": [decision(7, "DELETE", 1)],
    "an endless reason": [decision(1, "DELETE", 1, text=BERGEN, reason="It says so. " * 40)],
    "twice": [decision(1, "ADD"), decision(1, "DELETE", 1, text=BERGEN)],
}


@pytest.mark.parametrize(
    "case",
    mostly_thorough(
        DECIDED | {name: ([OSLO], [BERGEN], made, [BERGEN, OSLO], []) for name, made in UNTRUSTED.items()},
        *DECIDED,
        *[*UNTRUSTED][:3],
    ),
)
async def test_decision_closes_only_its_candidates_and_an_untrusted_answer_adds(
    memory: Mnemic, model: LoopbackModel, case: tuple[list[str], list[str], list[Decision], list[str], list[str]]
) -> None:
    known, new, made, living, falls = case
    await know(memory, model, *known)
    await learn(memory, model, new, *made)

    assert await contents(memory, ANA) == sorted(living)
    assert sorted(item.content for item in await closed(memory)) == falls
    for text in living:  # by its own words, also where the decision wrote them
        assert text in [found.content for found in await memory.query(ANA, text, search_type="semantic")]
    assert await memory.form(ANA) == []


@pytest.mark.parametrize(("event", "most"), [("DELETE", 3), ("UPDATE", 1 + 3)])
async def test_one_run_closes_few_facts_beyond_the_one_that_it_renews(
    memory: Mnemic, model: LoopbackModel, event: str, most: int
) -> None:
    boats = [f"Ana owns the harbor boat called {name} in Porto." for name in ("Alba", "Brisa", "Coral", "Iris", "Ilha")]
    since = boats[0].replace("Porto", "Porto since May")
    await know(memory, model, *boats)
    await learn(memory, model, [since], decision(1, event, *range(1, 6), text=since))

    assert last_prompt(model, DECISIONS).count("\n  known ") >= 5
    assert len(await closed(memory)) == most
    assert since in await contents(memory, ANA)


@pytest.mark.parametrize("said_at", ["2026-03-02T12:00:00Z", "2027-11-30T12:00:00Z"])
async def test_the_same_sentence_again_asks_no_model_and_stores_nothing(
    memory: Mnemic, model: LoopbackModel, said_at: str
) -> None:
    await know(memory, model, OSLO)
    before = asked(model).count(DECISIONS)
    model.answer(FACTS, facts(fact(OSLO)))
    await memory.observe(ANA, [{"role": "user", "content": "As I said.", "time": said_at}])
    (run,) = await memory.form(ANA)

    assert asked(model).count(DECISIONS) == before
    assert (run.stored, run.repeated) == ({}, 1)
    assert await contents(memory, ANA) == [OSLO]


async def test_however_near_a_difference_in_the_details_is_decided_by_the_model(
    memory: Mnemic, model: LoopbackModel
) -> None:
    old, new = "Ana is allergic to birch pollen.", "Ana is not allergic to birch pollen."
    model.answer_embeddings(always_the_same)
    await know(memory, model, old)
    await learn(memory, model, [new], decision(1, "DELETE", 1, text=new))

    assert new in last_prompt(model, DECISIONS)
    assert await contents(memory, ANA) == [new]


async def test_facts_of_different_people_never_meet(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer_embeddings(always_the_same)
    await know(memory, model, OSLO)
    before = asked(model).count(DECISIONS)
    await learn(memory, model, ["Bo lives in Oslo."], who=identity("bo", session="s2"))

    assert asked(model).count(DECISIONS) == before
    assert await contents(memory, ANA) == [OSLO]


async def test_a_protected_fact_stays_whatever_is_decided(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await know(memory, model, OSLO)
    superuser.execute("select mnemic.set_protection('harbor', id, true, 'admin') from mnemic.memories")
    await learn(memory, model, [BERGEN], decision(1, "DELETE", 1, text=BERGEN))

    assert await contents(memory, ANA) == [BERGEN, OSLO]
    assert await closed(memory) == []


def always_the_same(request: Request) -> list[list[float]]:
    return [[1.0] + [0.0] * (DIMENSIONS - 1) for _ in request["input"]]


MEMBER = identity("ana", session="s1", groups=["crew"])
#: Where each fact lies, by a word of it; 45 degrees apart is a cosine of 0.71, 56 of 0.559, 57 of 0.545.
PLACES = {"ferry": 0.0, "boat": 20.0, "quay": 56.0, "pier": 57.0, "mast": 90.0}

Edge = tuple[str, str, float]


def embed_by_place(model: LoopbackModel, places: Mapping[str, float] = PLACES) -> None:
    """Every text lies where its word says; what says none lies far from all."""

    def vector(text: str) -> list[float]:
        degrees = next((degrees for word, degrees in places.items() if word in text), 180.0)
        return [*direction(degrees, size=DIMENSIONS)]

    model.answer_embeddings(lambda request: [vector(text) for text in request["input"]])


def cosine(degrees: float) -> float:
    return round(math.cos(math.radians(degrees)), 2)


def edges(superuser: psycopg.Connection) -> set[Edge]:
    """What is related to what, by the last word of each."""
    rows = superuser.execute(
        "select f.content, t.content, strength from mnemic.relations"
        " join mnemic.memories f on f.id = from_id join mnemic.memories t on t.id = to_id"
    )
    return {(_last(from_), _last(to), round(strength, 2)) for from_, to, strength in rows.fetchall()}


def _last(content: str) -> str:
    return content.rstrip(".").split()[-1]


async def form(memory: Mnemic, model: LoopbackModel, *words: str) -> None:
    model.answer(FACTS, facts(*(fact(f"Ana painted the {word}.") for word in words)))
    about_what = " and the ".join(words)
    # messages of their own each time, and enough of them for so many facts
    await say(memory, MEMBER, *(f"About the {about_what}, {number}." for number in range(8)))


#: Facts formed one after the other, each with what is decided on it, and what is related to what in the end.
FORMED: dict[str, tuple[list[tuple[tuple[str, ...], list[Decision]]], set[Edge]]] = {
    "from link_min on": (
        [(("quay",), []), (("pier",), []), (("ferry",), [])],
        {("pier", "quay", cosine(1)), ("ferry", "quay", cosine(56))},
    ),
    "in one batch": ([(("ferry", "boat", "mast"), [])], {("boat", "ferry", cosine(20))}),
    # what a fact replaces is known by the supersession
    "not what is deleted": (
        [(("ferry",), []), (("boat",), [decision(1, "DELETE", 1)]), (("quay",), [])],
        {("quay", "boat", cosine(36))},
    ),
    "not what is known already": ([(("ferry",), []), (("ferry", "boat"), [])], {("boat", "ferry", cosine(20))}),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "wanted"), FORMED.values(), ids=FORMED)
async def test_a_new_fact_is_related_to_what_lies_near_it_and_lives_on(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, steps: list[Any], wanted: set[Edge]
) -> None:
    embed_by_place(model)
    for words, made in steps:
        model.answer(DECISIONS, decisions(*made))
        await form(memory, model, *words)

    assert edges(superuser) == wanted


async def test_edges_lead_to_the_nearest_and_no_further_than_so_many(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    embed_by_place(model, {"one": 0.0, "two": 10.0, "three": 20.0, "four": 30.0, "five": 40.0})
    model.answer(DECISIONS, decisions())
    async with scripted_memory(clean_db, model, neighbours=2) as memory:
        for words in (("one", "two", "three"), ("four",), ("five",)):
            await form(memory, model, *words)

    assert {edge for edge in edges(superuser) if edge[0] == "five"} == {
        ("five", "four", cosine(10)), ("five", "three", cosine(20))
    }  # fmt: skip


LAMP = "Ana bought a red lamp."
#: Facts of one person in several categories, none of which says anything of a lamp.
UNRELATED = {
    "Ana is allergic to peanuts.": "profile",
    "Ana's sister Vera lives in Graz.": "relationships",
    "Ana works as a bookbinder.": "profile",
    "Ana sails to Ryd in May 2027.": "goals",
    "Ana pays 740 euros of rent.": "tasks",
    "Ana plays the cello on Thursdays.": "activity",
    "Ana takes the ferry at 7:10.": "event",
    "Ana's boiler is a Vasco.": "knowledge",
}


@pytest.mark.thorough
async def test_judge_that_ends_everything_closes_at_most_one_fact_about_a_person(
    clean_db: Clone, model: LoopbackModel
) -> None:
    """Twelve times one purchase, each with a decision that names every fact the model was shown."""
    async with scripted_memory(clean_db, model, embedder="minilm", embedder_dimensions=None) as memory:
        for text, category in UNRELATED.items():
            await memory.remember(ANA, text, category=category)
        model.answer(FACTS, facts(fact(LAMP, category="activity")))
        model.answer(DECISIONS, lambda _: decisions(decision(1, "DELETE", *range(1, 13), text=LAMP)))
        for day in range(12):
            await say(memory, identity("ana", session=f"day {day}"), "I bought a red lamp.", "Well.", "Well.", "Well.")

        assert DECISIONS in asked(model)
        # among few facts one may stand out as nearer than the others
        assert len(set(UNRELATED) - set(await contents(memory, ANA))) <= 1
