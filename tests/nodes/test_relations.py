"""Facts that lie near others are related to them in the operation that stores them, and only to what lives."""

import math
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from mnemic.prompts.decide import Decision
from mnemic.service.memory import Mnemic
from mnemic.storage import memories
from tests.support.loopback import LoopbackModel
from tests.support.matrix import mostly_thorough
from tests.support.scripted import (
    DECISIONS,
    DIMENSIONS,
    FACTS,
    decision,
    decisions,
    fact,
    facts,
    meanwhile,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.statements import recorded_statements
from tests.support.worlds import direction, identity

ANA = identity("ana", session="s1", groups=["crew"])
SAID = ("I say what I say.", "assistant: So you do.", "Well then.", "Good.")
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


def about(*words: str, **changes: Any) -> Any:
    return facts(*(fact(f"Ana painted the {word}.", **changes) for word in words))


async def form(memory: Mnemic, model: LoopbackModel, *words: str, **changes: Any) -> None:
    model.answer(FACTS, about(*words, **changes))
    about_what = " and the ".join(words)
    # messages of their own each time, and enough of them for so many facts
    await say(memory, ANA, *(f"About the {about_what}, {number}." for number in range(8)))


#: Facts formed one after the other, each with what is decided on it, and what is related to what in the end.
BOTH = "Ana painted the ferry and the boat."
FORMED: dict[str, tuple[list[tuple[tuple[str, ...], list[Decision]]], set[Edge]]] = {
    "from link_min on": (
        [(("quay",), []), (("pier",), []), (("ferry",), [])],
        {("pier", "quay", cosine(1)), ("ferry", "quay", cosine(56))},
    ),
    "in one batch": ([(("ferry", "boat", "mast"), [])], {("boat", "ferry", cosine(20))}),
    # what a fact replaces is known by the supersession
    "not what is deleted": (
        [(("ferry", "quay"), []), (("boat",), [decision(1, "DELETE", 1, text=BOTH)])],
        {("quay", "ferry", cosine(56)), ("boat", "quay", cosine(36))},
    ),
    "not what is updated": (
        [(("ferry", "quay"), []), (("boat",), [decision(1, "UPDATE", 1, text=BOTH)])],
        {("quay", "ferry", cosine(56)), ("boat", "quay", cosine(36))},
    ),
    # boat, ferry
    "not what the run itself closes": (
        [(("quay",), []), (("ferry", "boat"), [decision(1, "DELETE", 2)])], {("boat", "quay", cosine(36))}
    ),
    "not what is known already": ([(("ferry",), []), (("ferry", "boat"), [])], {("boat", "ferry", cosine(20))}),
}  # fmt: skip


@pytest.mark.parametrize("case", mostly_thorough(FORMED.keys(), *(name for name in FORMED if "updated" not in name)))
async def test_a_new_fact_is_related_to_what_lies_near_it_and_lives_on(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, case: str
) -> None:
    embed_by_place(model)
    steps, wanted = FORMED[case]
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
    assert {from_: sum(edge[0] == from_ for edge in edges(superuser)) for from_, _, _ in edges(superuser)} == {
        "two": 1, "three": 2, "four": 2, "five": 2
    }  # fmt: skip


async def forgotten_meanwhile(memory: Mnemic, model: LoopbackModel) -> None:
    """A neighbour that ends between the look-up and the save."""
    embed_by_place(model)
    await form(memory, model, "ferry")
    (ferry,) = await memory.memories(ANA, ["fact"])
    model.answer(DECISIONS, meanwhile(lambda: memory.forget(ANA, ferry.id), decisions()))
    await form(memory, model, "boat")


async def test_a_neighbour_that_ended_meanwhile_is_left_out(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await forgotten_meanwhile(memory, model)

    assert edges(superuser) == set()
    assert [row.content for row in await memory.memories(ANA, ["fact"])] == ["Ana painted the boat."]


@pytest.mark.thorough
async def test_control_without_the_look_at_its_state_it_would_be_related(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = memories._SQL["insert"].replace("and m.state = 'active'", "")
    monkeypatch.setattr(memories, "_SQL", {**memories._SQL, "insert": careless})
    await forgotten_meanwhile(memory, model)

    assert edges(superuser) == {("boat", "ferry", cosine(20))}


async def test_nothing_is_related_across_scope_keys(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    embed_by_place(model)
    model.answer(FACTS, about("ferry"))
    await say(memory, identity("bo", session="s2"), *SAID)
    await form(memory, model, "boat")

    assert edges(superuser) == set()


@pytest.mark.parametrize("near", [pytest.param(False, marks=pytest.mark.thorough), True])
async def test_edges_cost_no_statement_of_their_own(
    memory: Mnemic, model: LoopbackModel, clean_db: Clone, superuser: psycopg.Connection, near: bool
) -> None:
    embed_by_place(model, {"boat": 56.0 if near else 90.0, "ferry": 0.0})
    await memory.observe(ANA, turns(*SAID))
    model.answer(FACTS, about("ferry", "boat"))
    with recorded_statements(clean_db) as sent:
        await memory.form(ANA)

    assert len(edges(superuser)) == int(near)
    assert [statement for statement in sent if "into relations" in statement] == [
        statement for statement in sent if "insert into memories" in statement
    ]
    assert sum("into relations" in statement for statement in sent) == 1
