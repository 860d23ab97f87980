"""What an erasure means to runs that had read the memory, to other sessions, and to a look at the past."""

from collections.abc import Iterator

import psycopg
import pytest

from mnemic.storage import time_machine
from tests.support.erasing import ANA, CANARY, places
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    FACTS,
    REFLECTIONS,
    fact,
    facts,
    meanwhile,
    reflection,
    reflections,
    say,
    scripted_memory,
)
from tests.support.server import Clone


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    """The plain scripted model, without the jobs of this room."""
    from tests.support.scripted import scripted_model

    with scripted_model() as running:
        yield running


async def test_a_formation_that_has_read_an_erased_reflection_saves_nothing(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with scripted_memory(clean_db, model) as memory:
        model.answer(REFLECTIONS, reflections(user=[reflection(f"Ana keeps a {CANARY}.")]))
        await say(memory, ANA, "I sing")
        (read,) = await memory.memories(ANA, ["reflection"])
        repeated = reflections(user=[reflection(f"Ana still keeps her {CANARY}.")])
        model.answer(REFLECTIONS, meanwhile(lambda: memory.erase(ANA, read.id), repeated), reflections())
        await say(memory, ANA, "I still do")
    assert places(superuser) == set()


async def test_a_session_is_told_that_a_memory_was_erased(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model) as memory:
        model.answer(FACTS, facts(fact("Ana keeps bees.")))
        await say(memory, ANA, "I keep bees")
        told = await memory.recall(ANA, "bees", search="always")
        await memory.observe(ANA, [{"role": "user", "content": "Well"}], revision=told["revision"])
        (bees,) = await memory.memories(ANA, ["fact"])
        await memory.erase(ANA, bees.id)
        assert "−deleted" in (await memory.recall(ANA, "Well"))["context"]


async def test_as_of_a_moment_after_an_erasure_shows_no_skeleton(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model) as memory:
        known = await memory.remember(ANA, "Ana keeps bees.", category="projects")
        assert known.id
        await memory.erase(ANA, known.id)
        async with memory.resources.database.scoped(ANA) as scoped:
            ((now,),) = await scoped.tuples(time_machine._SQL["newest"], {})
        assert await memory.as_of(ANA, "user:ana", now) == []
