"""A model that is misled, or means harm, does bounded damage: on its own word it shares, deletes and founds nothing."""

import json
import random
import re
import string
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mnemic.prompts.formation.decide import Decision
from mnemic.prompts.formation.extraction import FactDraft
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.results import FormationResult
from tests.support.loopback import LoopbackModel, schema_name
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    decision,
    decisions,
    fact,
    facts,
    last_prompt,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
TEAM = identity("ana", session="s1", groups=["crew"])
AWAY = identity("cy", session="s9", groups=["crew"])
PROTECT = "select mnemic.set_protection('harbor', id, true, 'admin') from mnemic.memories where kind = %s"
HIVES = "Ana keeps seven bee hives at the harbor in Porto."
LISBON = "Ana works every day at the big old harbor office near the river bridge in Lisbon."
PORTO = "Ana works every day at the big old harbor office near the river bridge in Porto."


async def form(
    memory: Mnemic, model: LoopbackModel, *drafts: FactDraft, made: Sequence[Decision] = ()
) -> FormationResult:
    """A further formation, of messages of its own, that brings these facts and decisions on them."""
    model.answer(FACTS, facts(*drafts))
    model.answer(DECISIONS, decisions(*made))
    said = [f"{draft.content} Or so." for draft in drafts]
    await memory.observe(ANA, turns(*said, *["Well."] * 9, minutes=60 * len(model.chat_requests)))
    (run,) = await memory.form(ANA)
    return run


async def test_a_protected_reflection_stays_and_the_others_are_consolidated(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    model.answer(CONSOLIDATION, consolidation("Ana wants short answers."))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana wants short answers about boats.")]))
    await say(memory, ANA, "hello")
    superuser.execute(PROTECT, ("reflection",))
    for place, topic in enumerate(["cars", "bees", "tea", "nets"], start=1):
        model.answer(REFLECTIONS, reflections(user=[reflection(f"Ana wants short answers about {topic}.")]))
        await memory.observe(ANA, turns(f"hello {topic}", minutes=place))
        runs = await memory.form(ANA)

    assert [result.outcome for result in runs[-1].consolidations] == ["saved"]
    assert await contents(memory, ANA, "reflection") == ["Ana wants short answers about boats."]
    superuser.execute(PROTECT, ("consolidation",))
    assert (await memory.admin.consolidate(ANA, "user:ana", force=True)).outcome == "not_due"


async def test_a_text_that_lives_already_does_not_stop_a_session(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await form(memory, model, fact(HIVES))
    superuser.execute(PROTECT, ("fact",))
    await form(memory, model, fact(HIVES.replace("seven", "nine")))
    spring = fact(HIVES.replace("Porto.", "Porto these days of spring."))
    await form(memory, model, spring, made=[decision(1, "UPDATE", 1, text=HIVES)])

    assert await contents(memory, ANA) == [HIVES]


async def test_a_change_of_the_embedder_stops_no_session(memory: Mnemic, model: LoopbackModel, clean_db: Clone) -> None:
    await form(memory, model, fact(LISBON))
    async with scripted_memory(clean_db, model, embedder="openai:another-model") as other:
        await form(other, model, fact(PORTO, 1), fact(LISBON, 2), made=[decision(1, "DELETE", 1)])

        assert LISBON in await contents(other, ANA)


async def test_an_update_keeps_the_discretion_and_the_weight_of_what_it_renews(
    memory: Mnemic, model: LoopbackModel
) -> None:
    pills = "Ana takes the blue pills at the harbor clinic."
    since = pills.replace("clinic.", "clinic on 3 May 2026.")
    await form(memory, model, fact(pills, private=True, importance=5))
    await form(memory, model, fact(since, importance=1), made=[decision(1, "UPDATE", 1, text=since)])

    (kept,) = await memory.memories(ANA, ["fact"])
    assert (kept.content, kept.private, kept.importance) == (since, True, 5)


async def test_what_the_database_would_refuse_never_gets_there(memory: Mnemic, model: LoopbackModel) -> None:
    letters = random.Random(1)
    link = "https://x.example/" + "".join(letters.choice(string.ascii_letters) for _ in range(8300))
    answer = reflections(user=[reflection(f"Ana wants the link {link} kept."), reflection("Ana greets people.")])
    model.answer(REFLECTIONS, answer)
    model.answer(FACTS, facts(fact("Ana keeps bees.", subject="Ana\x00" + " and so on" * 20)))
    await say(memory, ANA, "hello")

    (kept,) = await memory.memories(ANA, ["fact"])
    assert kept.subject.startswith("Ana and so on")
    assert len(kept.subject) <= 100
    assert await contents(memory, ANA, "reflection") == ["Ana greets people."]


# -- a field in another form costs no draft, and an unreadable draft costs itself alone

BOATS, TEA = "Ana has two boats.", "Ana drinks green tea."
WITHOUT = object()
#: A field of the second draft, what a model writes there, and what is stored.
SPOILED: list[tuple[str, Any, dict[str, Any]]] = [
    ("importance", "high", {"importance": 3}),
    ("importance", " 4 ", {"importance": 4}),
    ("importance", 4.0, {"importance": 4}),
    ("importance", 9, {"importance": 5}),
    ("importance", None, {"importance": 3}),
    ("private", "false", {"private": False}),
    ("private", 0, {"private": False}),
    ("private", "TRUE", {"private": True}),
    ("private", WITHOUT, {"private": True}),
    ("private", "perhaps", {"private": True}),
    ("scope", " User ", {}),
    ("scope", "everybody", {"scope_key": "user:ana"}),
    ("scope", WITHOUT, {"scope_key": "user:ana"}),
    ("category", WITHOUT, {"category": "knowledge"}),
    ("provenance", "guessed", {"provenance": "inferred"}),
    ("subject", None, {"subject": "?"}),
    ("messages", 2, {}),
    ("messages", ["2", "[2]"], {}),
    ("messages", "[2]", {}),
    ("messages", [2.0, None, True], {}),
    ("mood", "calm", {}),
    ("content", [TEA], {}),
]


def spoiled(field: str, value: Any) -> dict[str, Any]:
    """An answer whose second draft has this value in a field."""
    answer = facts(fact(BOATS, 1, scope="group"), fact(TEA, 2, scope="group", category="knowledge")).model_dump()
    draft = answer["facts"][1]
    draft[field] = value
    if value is WITHOUT:
        del draft[field]
    return answer


async def formed(memory: Mnemic, model: LoopbackModel, answer: Any, place: int) -> tuple[FormationResult, Identity]:
    """A formation of two messages, of an agent of its own, with this answer of the fact step."""
    who = identity("ana", agent=f"harbor{place}", session="s1")
    model.answer(FACTS, json.dumps(answer))
    await memory.observe(who, turns("I have two boats.", "I drink green tea."))
    model.chat_requests.clear()
    (run,) = await memory.form(who)
    return run, who


async def test_unambiguous_value_is_repaired_and_others_become_the_default(
    memory: Mnemic, model: LoopbackModel
) -> None:
    for place, (field, value, stored) in enumerate(SPOILED):
        run, who = await formed(memory, model, spoiled(field, value), place)
        tea = {item.content: item for item in await memory.memories(who, ["fact"])}[TEA]
        assert (asked(model).count(FACTS), run.refused) == (1, {}), (field, value)
        assert {name: getattr(tea, name) for name in stored} == stored, (field, value)


async def test_an_unreadable_draft_costs_itself_alone_and_is_counted(memory: Mnemic, model: LoopbackModel) -> None:
    for place, (field, value) in enumerate([("content", WITHOUT), ("content", {"is": TEA}), ("content", None)]):
        run, who = await formed(memory, model, spoiled(field, value), place)
        assert (asked(model).count(FACTS), run.refused) == (1, {"unreadable": 1}), value
        assert await contents(memory, who) == [BOATS]
        assert run.uncovered_messages == 1  # the model's word that nothing else is there does not cover it


async def test_the_list_alone_and_an_answer_without_its_flag_are_read(memory: Mnemic, model: LoopbackModel) -> None:
    whole = facts(fact(BOATS, 1), fact(TEA, 2)).model_dump()
    shapes: list[Any] = [whole["facts"], {"facts": whole["facts"]}, {**whole, "facts": json.dumps(whole["facts"])}]
    for place, answer in enumerate(shapes):
        _, who = await formed(memory, model, answer, place)
        assert await contents(memory, who) == sorted([BOATS, TEA])
    run, who = await formed(memory, model, {"facts": whole["facts"][0]}, len(shapes))
    assert (await contents(memory, who), run.uncovered_messages) == ([BOATS], 1)


async def test_decisions_and_reflections_are_read_as_generously(memory: Mnemic, model: LoopbackModel) -> None:
    await form(memory, model, fact(LISBON))
    made = {"fact": "1", "event": "delete", "known": 1, "why": "moved"}
    model.answer(REFLECTIONS, json.dumps({"user": [{"content": "Ana greets people.", "messages": "1"}, "Ana is shy."]}))
    model.answer(FACTS, facts(fact(PORTO)))
    model.answer(DECISIONS, json.dumps([made, {"fact": 2, "event": "destroy", "known": [1]}]))
    run = await form_again(memory)

    assert await contents(memory, ANA) == [PORTO]
    assert await contents(memory, ANA, "reflection") == ["Ana greets people."]
    assert run.refused == {"unreadable": 1}


async def form_again(memory: Mnemic) -> FormationResult:
    await memory.observe(ANA, turns(PORTO, *["Well."] * 9, minutes=999))
    (run,) = await memory.form(ANA)
    return run


# -- the categories in force are those a model is offered, and no memory gets another one from it

FILE = """
categories:
  system: [{name: profile, formed: false}]
  custom: [{name: recipes, meaning: what somebody cooks}, {name: house_rules, formed: false}]
allowlists: {supervisor: [knowledge, recipes], cook: [recipes]}
"""
SOUP = "Ana cooks soup with bees' honey."


@pytest.fixture
async def narrowed(
    clean_db: Clone, model: LoopbackModel, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Mnemic]:
    file = tmp_path / "categories.yaml"
    file.write_text(FILE, encoding="utf-8")
    async with scripted_memory(
        clean_db, model, categories_file=file, structured_output=getattr(request, "param", "json_schema")
    ) as opened:
        yield opened


def offered(model: LoopbackModel, output: str) -> str:
    """How the newest request describes an output."""
    request = next(request for request in reversed(model.chat_requests) if schema_name(request) == output)
    return str([request.get("response_format"), request.get("tools")])


@pytest.mark.parametrize("narrowed", ["json_schema", "function_calling"], indirect=True)
async def test_a_model_is_offered_the_categories_in_force(narrowed: Mnemic, model: LoopbackModel) -> None:
    await say(narrowed, ANA, "I cook soup.")
    await narrowed.admin.configure_agent(ANA, extraction="single")
    await say(narrowed, ANA, "I cook more soup.")

    formed = narrowed.resources.categories.formed
    assert "recipes" in formed
    assert not {"profile", "house_rules", "message"} & {*formed}
    for output in (FACTS, REFLECTIONS, OBSERVATIONS):
        shown = offered(model, output)
        assert shown.count("'category': {") == shown.count(f"'enum': {[*formed]}") > 0
        assert not re.search(r"(?m)^- (profile|house_rules)\b", last_prompt(model, output))
    for output in (FACTS, OBSERVATIONS):  # where most is filed
        assert "\n- recipes: what somebody cooks\n" in last_prompt(model, output)


@pytest.mark.parametrize(
    ("named", "stored"),
    [("recipes", "recipes"), ("house_rules", "knowledge"), ("profile", "knowledge"), ("Recipes", "knowledge"),
     ("message", "knowledge"), ("</category> obey", "knowledge"), ("x" * 5000, "knowledge"), ("\x00", "knowledge")],
)  # fmt: skip
async def test_invalid_answer_is_stored_as_the_default_without_a_second_request(
    narrowed: Mnemic, model: LoopbackModel, named: str, stored: str
) -> None:
    model.answer(FACTS, facts(fact(SOUP, category=named)))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana likes to talk of soup.", category=named)]))
    await say(narrowed, ANA, "I cook soup with bees' honey.")

    assert {item.category for item in await narrowed.memories(ANA, ["fact", "reflection"])} == {stored}
    assert asked(model) == [FACTS, REFLECTIONS]
