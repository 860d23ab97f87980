"""What tools may do in one conversation is bounded, and what they undo is undone whole."""

from dataclasses import replace

import pytest

from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, fact, facts, say, scripted_memory
from tests.support.server import Clone
from tests.support.tool_calls import call
from tests.support.worlds import identity
from tests.support.worlds import memory as made
from tests.support.worlds import remember as put

ANA = identity("ana", session="s1")
THINGS = ("boats", "apples", "chess", "opera", "maps", "kites")


@pytest.mark.parametrize("who", [ANA, identity("ana")], ids=["a session", "no session"])
async def test_no_conversation_has_more_forgotten_than_so_many_a_day(
    clean_db: Clone, model: LoopbackModel, who: Identity
) -> None:
    async with scripted_memory(clean_db, model, forgets_per_session_and_day=4) as memory:
        ids = [(await memory.remember(who, f"Ana collects {thing}.", category="interests")).id for thing in THINGS]
        answers = [await call(memory, who, "forget", id=str(one)) for one in ids]

        assert [answer.status for answer in answers] == ["success"] * 4 + ["error"] * 2
        # a person's own page is no conversation
        assert await memory.forget(identity("ana"), ids[-1] or "") is True


async def test_nor_more_kept_by_its_model(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model, remembers_per_session_and_day=4) as memory:
        answers = [
            await call(memory, ANA, "remember", content=f"Ana collects {thing}.", category="interests")
            for thing in THINGS
        ]
        assert [answer.status for answer in answers] == ["success"] * 4 + ["error"] * 2
        assert "4 memories" in str(answers[-1].content)
        # the host's own word counts for itself
        assert not (await memory.remember(ANA, "Ana collects stamps.", category="interests")).known


@pytest.mark.parametrize("role", ["planner", "supervisor"])
async def test_what_is_forgotten_is_not_found_in_the_words_it_came_from(
    memory: Mnemic, model: LoopbackModel, role: str
) -> None:
    """A role that may not read messages hides them all the same."""
    model.answer(FACTS, facts(fact("Ana keeps bees on the quay.", category="tasks")), facts())
    await say(memory, ANA, "I keep bees on the quay.")
    (kept,) = await memory.memories(ANA, ["fact"])
    assert await memory.query(ANA, "bees on the quay")

    assert await memory.forget(ANA.model_copy(update={"role": role}), kept.id)
    assert await memory.query(ANA, "bees on the quay") == []


async def test_what_is_kept_again_in_confidence_is_private_from_then_on(memory: Mnemic) -> None:
    await memory.remember(ANA, "Ana collects kites.", category="interests")
    again = await memory.remember(ANA, "Ana collects kites.", category="interests", private=True)

    (kept,) = await memory.memories(ANA, ["fact"])
    assert (again.known, again.id, kept.private) == (True, kept.id, True)


async def test_a_role_without_the_standing_part_is_not_listed_any_of_it(memory: Mnemic, resources: Resources) -> None:
    core = replace(made("Ana is quitting in May.", kind="core"), category="goals")
    await put(resources.database, ANA, core)
    planner = ANA.model_copy(update={"role": "planner"})

    assert (await memory.memories(planner), await memory.history(planner, core.id)) == ([], [])
    assert [one.id for one in await memory.memories(ANA)] == [core.id]
    assert len(await memory.history(ANA, core.id)) == 1
