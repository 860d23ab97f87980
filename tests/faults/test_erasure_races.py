"""What an erasure means to runs that had read the memory, to other sessions, to what is resent, and to a rollback."""

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import RefusedError
from tests.faults.processes import run_instead
from tests.faults.strikes import UNFENCED_CONSOLIDATION, UNFENCED_FORMATION
from tests.support.erasing import ANA, CANARY, places, problems
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    asked,
    consolidation,
    contents,
    decision,
    decisions,
    fact,
    facts,
    last_prompt,
    meanwhile,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.scripted import model as model  # the plain one, without the jobs of this room
from tests.support.server import Clone
from tests.support.worlds import identity

BO = identity("bo", session="s1")
KEY = "user:ana"
LIVED = f"Ana works every day at the big old harbor office near the {CANARY} bridge in Lisbon."


async def form_while_erased(clone: Clone, model: LoopbackModel) -> list[str]:
    """Two people speak, and one is erased while the model looks at it; the other one's facts."""
    async with scripted_memory(clone, model) as memory:
        both = facts(fact(f"Ana keeps a {CANARY}.", 1), fact("Bo sails.", 2, subject="Bo"))
        bos = facts(fact("Bo sails.", 1, subject="Bo"))
        model.answer(FACTS, meanwhile(lambda: memory.privacy.erase_person(ANA), both), bos)
        said = [*turns(f"I keep a {CANARY}", user="ana"), *turns("I sail", user="bo", minutes=1)]
        await memory.observe(ANA, said, several_speakers=True)
        await memory.form(BO)
        return await contents(memory, BO)


async def test_what_others_said_in_the_same_session_is_formed_without_the_erased(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    assert await form_while_erased(clean_db, model) == ["Bo sails."]
    assert CANARY not in last_prompt(model, FACTS)
    assert places(superuser) == set()
    assert superuser.execute("select count(*) from mnemic.leases where holder is not null").fetchone() == (0,)


@pytest.mark.thorough
async def test_without_the_fence_it_would_be_written_back(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(UNFENCED_FORMATION, monkeypatch.setattr)
    await form_while_erased(clean_db, model)
    assert "memories" in places(superuser)


async def test_an_update_of_a_memory_erased_meanwhile_is_decided_again(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    """The merged text holds words of the erased one, whose version is not the one that was read."""
    merged = LIVED.replace("Lisbon", "Porto")
    async with scripted_memory(clean_db, model) as memory:
        model.answer(FACTS, facts(fact(LIVED)))
        await say(memory, ANA, "I work in Lisbon")
        (old,) = await memory.memories(ANA, ["fact"])
        moved = LIVED.replace(f" near the {CANARY} bridge", "").replace("Lisbon", "Porto")
        model.answer(FACTS, facts(fact(moved)))
        update = decisions(decision(1, "UPDATE", 1, text=merged))
        model.answer(DECISIONS, meanwhile(lambda: memory.privacy.erase(ANA, old.id), update))
        await memory.observe(ANA, turns("Now I work in Porto", minutes=9))
        await memory.form(ANA)
        assert asked(model).count(DECISIONS) == 1
        assert await contents(memory, ANA) == [moved]
    assert places(superuser) == set()
    assert problems(clean_db) == []


async def consolidate_while_erased(memory: Mnemic, model: LoopbackModel, erased: str) -> str:
    """A reflection, or the text that stands, is erased while the model writes the next text."""
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana sings.")]))
    await say(memory, ANA, "I sing")
    model.answer(CONSOLIDATION, consolidation(f"Ana sings. {CANARY}"))
    await memory.admin.consolidate(ANA, KEY, force=True)
    model.answer(REFLECTIONS, reflections(user=[reflection(f"Ana keeps a {CANARY}.")]))
    await say(memory, ANA, f"I keep a {CANARY}")
    # both say it, so both are erased; one of them while the model writes
    by_kind = {item.kind: item.id for item in await memory.memories(ANA, ["consolidation", "reflection"])}
    later = by_kind.pop(erased)  # type: ignore[call-overload]
    text = consolidation(f"Ana sings and keeps a {CANARY}.")
    model.answer(CONSOLIDATION, meanwhile(lambda: memory.privacy.erase(ANA, later), text))
    result = await memory.admin.consolidate(ANA, KEY, force=True)
    await memory.privacy.erase(ANA, *by_kind.values())
    return result.outcome


@pytest.mark.parametrize("erased", ["consolidation", "reflection"])
async def test_a_consolidation_of_what_was_erased_meanwhile_is_stale(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, erased: str
) -> None:
    async with scripted_memory(clean_db, model) as memory:
        assert await consolidate_while_erased(memory, model, erased) == "stale"
    assert places(superuser) == set()
    assert problems(clean_db) == []


@pytest.mark.thorough
@pytest.mark.parametrize("guarded", [True, False])
async def test_the_version_and_the_guard_are_two_walls(
    fresh_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    run_instead(UNFENCED_CONSOLIDATION, monkeypatch.setattr)
    with fresh_db.as_superuser() as superuser:
        async with scripted_memory(fresh_db, model) as memory:
            if guarded:
                with pytest.raises(RefusedError):
                    await consolidate_while_erased(memory, model, "consolidation")
                return
            superuser.execute("alter table mnemic.memories disable trigger guard")
            assert await consolidate_while_erased(memory, model, "consolidation") == "saved"
        assert "memories" in places(superuser)


@pytest.mark.parametrize("ids", [True, False])
async def test_an_erased_person_begins_anew_and_what_is_resent_stays_gone(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection, ids: bool
) -> None:
    said = turns(f"I keep a {CANARY}", f"assistant: A {CANARY}?", "Yes")
    said = [{**item, "id": f"m{n}"} for n, item in enumerate(said)] if ids else said
    async with scripted_memory(clean_db, model) as memory:
        model.answer(FACTS, facts(fact(f"Ana keeps a {CANARY}.")))
        await memory.observe(ANA, said[:2])
        await memory.form(ANA)
        await memory.observe(ANA, said)
        await memory.privacy.erase_person(ANA)
        assert (await memory.observe(ANA, said)).accepted == 0
        assert await memory.form(ANA) == []
        assert places(superuser) == set()
        model.answer(FACTS, facts(fact("Ana keeps bees.")))
        new = [*said, {"role": "user", "content": "I keep bees", "id": "m9"}]
        assert (await memory.observe(ANA, new)).accepted == 1
        (run,) = await memory.form(ANA)
        assert run.formed == 1
        assert await contents(memory, ANA) == ["Ana keeps bees."]
    assert places(superuser) == set()
    assert problems(clean_db) == []


async def test_a_formation_that_has_read_an_erased_reflection_saves_nothing(
    clean_db: Clone, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    async with scripted_memory(clean_db, model) as memory:
        model.answer(REFLECTIONS, reflections(user=[reflection(f"Ana keeps a {CANARY}.")]))
        await say(memory, ANA, "I sing")
        (read,) = await memory.memories(ANA, ["reflection"])
        repeated = reflections(user=[reflection(f"Ana still keeps her {CANARY}.")])
        model.answer(REFLECTIONS, meanwhile(lambda: memory.privacy.erase(ANA, read.id), repeated), reflections())
        await say(memory, ANA, "I still do")
    assert places(superuser) == set()
