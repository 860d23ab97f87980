"""A person is erased while a refinement runs, or after one moved their words: nothing of them is left."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import RefinementOverError
from mnemic.state.records import NewMemory
from tests.support.erasing import CANARY, places, problems
from tests.support.loopback import Answer, LoopbackModel, Request, calling, offering
from tests.support.matrix import mostly_thorough
from tests.support.mutating import mutate
from tests.support.scripted import scripted_model, scripted_resources
from tests.support.server import Clone
from tests.support.worlds import identity, memory, remember

ANA, BO = identity("ana", groups=["crew"]), identity("bo", groups=["crew"])
CREW = "group:crew"
HERS = f"Ana of the crew has a {CANARY} allergy."
MAY = "The crew sails from Oslo every single May, with great joy."
NINE = "The crew eats at nine o'clock, together in the galley."
COMPLETE: tuple[str, dict[str, Any]] = ("complete_refinement", {"summary": "Said in fewer words."})
#: A change, without which a session leaves no journal.
REWORDED = ("update_memory", {"id": 2, "content": MAY.replace("single ", "")})
#: What the model may do with words that it has read before they were erased.
REPEATS: dict[str, tuple[str, dict[str, Any]]] = {
    "merges": (
        "consolidate_memories",
        {
            "ids_to_merge": [2, 3],
            "new_content": f"The crew sails from Oslo every May, eats at nine together in the galley, no {CANARY}.",
        },
    ),
    "rewrites": ("update_memory", {"id": 3, "content": f"The crew eats at nine, in the galley, no {CANARY}."}),
    "tells": ("complete_refinement", {"summary": f"Kept that Ana has a {CANARY} allergy."}),
}


def core_of_the_crew() -> list[NewMemory]:
    texts = (replace(memory(HERS, kind="core", key=CREW), subject_user_id="ana"),)
    return [*texts, *(memory(one, kind="core", key=CREW) for one in (MAY, NINE))]


async def erased_meanwhile(
    clone: Clone,
    model: LoopbackModel,
    repeat: tuple[str, dict[str, Any]],
    first: Callable[[], object] = lambda: None,
) -> None:
    """A session of Bo's in which Ana is erased while the model thinks, which then repeats what it has read."""
    loop = asyncio.get_running_loop()
    async with scripted_resources(clone, model) as resources:
        mnemic = Mnemic(resources)
        for place, one in enumerate(core_of_the_crew()):
            await remember(resources.database, BO, replace(one, valid_from=one.valid_from.replace(day=place + 3)))

        def answer(_: Request) -> Answer:
            first()
            asyncio.run_coroutine_threadsafe(mnemic.erase_person(ANA), loop).result(timeout=20)
            return calling(repeat)

        model.answer(offering("complete_refinement"), calling(REWORDED), answer, calling(COMPLETE))
        await mnemic.refine(BO, CREW, force=True)


@pytest.mark.parametrize("repeat", mostly_thorough(REPEATS.keys(), "rewrites"))
async def test_what_a_model_read_before_an_erasure_is_not_written_after_it(
    clean_db: Clone, superuser: psycopg.Connection, repeat: str
) -> None:
    with scripted_model() as model:
        with pytest.raises(RefinementOverError):
            await erased_meanwhile(clean_db, model, REPEATS[repeat])
        assert places(superuser) == set()

        model.answer(offering("complete_refinement"), calling(COMPLETE))
        async with scripted_resources(clean_db, model) as resources:
            result = await Mnemic(resources).refine(BO, CREW, force=True)
        assert (result["ended"], result["resumed"]) == ("completed", True)
        assert CANARY not in str(model.chat_requests[-1])
    assert problems(clean_db) == []


@pytest.mark.thorough
@pytest.mark.parametrize("repeat", REPEATS)
async def test_control_a_session_that_goes_on_writes_it_again(fresh_db: Clone, repeat: str) -> None:
    with scripted_model() as model, fresh_db.as_superuser() as superuser:

        def drop() -> None:
            superuser.execute("drop trigger sessions_lapse on mnemic.memories")

        await erased_meanwhile(fresh_db, model, REPEATS[repeat], drop)
        assert "memories" in places(superuser)


async def moved_and_erased(
    clone: Clone, *calls: tuple[str, dict[str, Any]], meanwhile: Callable[[], None] = lambda: None
) -> None:
    """A session of Bo's, and the erasure of Ana when it is over."""
    with scripted_model() as model:
        async with scripted_resources(clone, model) as resources:
            mnemic = Mnemic(resources)
            for place, one in enumerate(core_of_the_crew()):
                await remember(resources.database, BO, replace(one, valid_from=one.valid_from.replace(day=place + 3)))
            model.answer(offering("complete_refinement"), *map(calling, calls), calling(COMPLETE))
            result = await mnemic.refine(BO, CREW, force=True)
            assert result["updated"] + result["merged"] > 0
            meanwhile()
            await mnemic.erase_person(ANA)


DELETE: tuple[str, dict[str, Any]] = ("delete_memory", {"id": 1})
SHORTEN: tuple[str, dict[str, Any]] = ("update_memory", {"id": 1, "content": "Ana has an allergy."})
MOVES = {
    "rewritten, then deleted": (REPEATS["rewrites"], DELETE),
    "deleted, then rewritten": (DELETE, REPEATS["rewrites"]),
    "merged with others' words": (REPEATS["merges"], DELETE),
    "moved by two rewritings": (REPEATS["rewrites"], SHORTEN),
}


@pytest.mark.parametrize("moved", mostly_thorough(MOVES.keys(), "rewritten, then deleted"))
async def test_words_that_a_refinement_moved_to_another_memory_are_erased_with_whose_they_are(
    clean_db: Clone, superuser: psycopg.Connection, moved: str
) -> None:
    await moved_and_erased(clean_db, *MOVES[moved])

    assert places(superuser) == set()
    assert living(superuser) >= {MAY}
    assert problems(clean_db) == []


MINE = "The crew eats at nine, in the galley."
OWN_WORDS = ("update_memory", {"id": 3, "content": MINE})


@pytest.mark.thorough
async def test_what_was_rewritten_in_words_of_its_own_stays(clean_db: Clone, superuser: psycopg.Connection) -> None:
    await moved_and_erased(clean_db, OWN_WORDS, DELETE)

    assert living(superuser) == {MAY, MINE}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("function", "text", "moved"),
    [
        ("went_into", "(h).event in ('DELETE', 'MERGE', 'UPDATE')", "deleted, then rewritten"),
        ("went_into", "w.event in ('ADD', 'UPDATE')", "merged with others' words"),
    ],
)
async def test_control_without_the_rule_they_stay(fresh_db: Clone, function: str, text: str, moved: str) -> None:
    with fresh_db.as_superuser() as superuser:
        await moved_and_erased(fresh_db, *MOVES[moved], meanwhile=lambda: mutate(superuser, function, text, "false"))
        assert "memories" in places(superuser)


@pytest.mark.thorough
async def test_control_where_old_words_count_what_was_rewritten_goes(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as superuser:
        rule = "o.event in ('MERGE', 'UPDATE')"
        await moved_and_erased(
            fresh_db, OWN_WORDS, DELETE, meanwhile=lambda: mutate(superuser, "went_into", rule, "false")
        )
        assert living(superuser) == {MAY}


def living(superuser: psycopg.Connection) -> set[str]:
    rows = superuser.execute("select content from mnemic.memories where state = 'active' and kind = 'core'").fetchall()
    return {content for (content,) in rows}
