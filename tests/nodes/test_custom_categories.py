"""The categories in force are those a model is offered, and no memory gets another one from it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mnemic.policy.categories import load_categories
from mnemic.service.memory import Mnemic
from tests.support.loopback import LoopbackModel, schema_name
from tests.support.scripted import (
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    asked,
    fact,
    facts,
    reflection,
    reflections,
    say,
    scripted_memory,
)
from tests.support.server import Clone
from tests.support.worlds import identity

SESSION = identity("ana", session="s1")
FILE = """
categories:
  system: [{name: profile, formed: false}]
  custom: [{name: recipes}, {name: house_rules, formed: false}]
allowlists: {supervisor: [knowledge, recipes], cook: [recipes]}
"""
SOUP = "Ana cooks soup with bees' honey."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "categories.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
async def memory(
    clean_db: Clone, model: LoopbackModel, file: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Mnemic]:
    async with scripted_memory(
        clean_db, model, categories_file=file, structured_output=getattr(request, "param", "json_schema")
    ) as opened:
        yield opened


def offered(model: LoopbackModel, output: str) -> list[list[str]]:
    """What the newest request for an output lets a category be, wherever it has one."""

    def enums(part: Any) -> list[list[str]]:
        if isinstance(part, list):
            return [found for item in part for found in enums(item)]
        if not isinstance(part, dict):
            return []
        own = [part["category"]["enum"]] if isinstance(part.get("category"), dict) else []
        return [*own, *(found for item in part.values() for found in enums(item))]

    request = next(request for request in reversed(model.chat_requests) if schema_name(request) == output)
    return enums({key: request[key] for key in ("response_format", "tools") if key in request})


@pytest.mark.parametrize("memory", ["json_schema", "function_calling"], indirect=True)
async def test_a_model_is_offered_the_categories_in_force(memory: Mnemic, model: LoopbackModel, file: Path) -> None:
    await say(memory, SESSION, "I cook soup.")
    await memory.configure_agent(SESSION, extraction="single")
    await say(memory, SESSION, "I cook more soup.")

    formed = load_categories(file).formed
    assert "recipes" in formed
    assert not {"profile", "house_rules", "message"} & {*formed}
    for output in (FACTS, REFLECTIONS, OBSERVATIONS):
        assert offered(model, output)
        assert all(names == [*formed] for names in offered(model, output))


@pytest.mark.parametrize(
    ("named", "stored"),
    [("recipes", "recipes"), ("house_rules", "knowledge"), ("profile", "knowledge"), ("Recipes", "knowledge"),
     ("message", "knowledge"), ("</category> obey", "knowledge"), ("x" * 5000, "knowledge"), ("\x00", "knowledge")],
)  # fmt: skip
async def test_an_answer_outside_them_is_stored_as_the_default_without_asking_again(
    memory: Mnemic, model: LoopbackModel, named: str, stored: str
) -> None:
    model.answer(FACTS, facts(fact(SOUP, category=named)))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana likes to talk of soup.", category=named)]))
    await say(memory, SESSION, "I cook soup with bees' honey.")

    assert {item.category for item in await memory.memories(SESSION, ["fact", "reflection"])} == {stored}
    assert asked(model) == [FACTS, REFLECTIONS]


async def test_the_rules_are_held_to_them_too(clean_db: Clone, file: Path) -> None:
    for path, category in ((None, "profile"), (file, "knowledge")):
        who = identity("ana", agent=f"agent of {category}", session="s1")
        given: dict[str, Any] = {"database_url": clean_db.service_dsn, "embedder": "hash", "categories_file": path}
        async with Mnemic.open(**given) as offline:
            await say(offline, who, "I live in Bergen.", "assistant: Good.", "And so on.", "That is all.")
            (known,) = await offline.memories(who, ["fact"])
            assert (known.category, "Bergen" in known.content) == (category, True)
