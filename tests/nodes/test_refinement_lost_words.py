"""What a refinement's agent is told of lost words: of the text after each edit, of all memories before it ends."""

from dataclasses import replace

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from tests.support.loopback import LoopbackModel
from tests.support.refinements import (
    ANA,
    USAGE,
    complete,
    delete,
    keep,
    living,
    merge,
    play,
    set_protected,
    update,
)
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import memory as draft

POTTERY = "Ana makes pottery on Mondays and is proud of every single bowl."
HAMMOCK = "Ana watches the sunset from a hammock with Bo, year after year."
CRAFTS = "Ana is proud of her crafts, watches the sky with Bo, year after year."
#: So that enough may be removed.
OTHERS = ("Ana swims.", "Ana runs.", "Ana naps.", "Ana cooks.")


def lost(answer: str) -> list[str]:
    """The phrases that an answer names as lost, from between its fences."""
    return [phrase for phrase in answer.partition("<lost>\n")[2].partition("\n</lost>")[0].split("; ") if phrase]


def words(phrases: list[str]) -> set[str]:
    """All words of phrases."""
    return set(" ".join(phrases).split())


async def test_every_edit_reports_its_missing_words_until_they_are_restored(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await keep(memory, POTTERY, HAMMOCK, "Ana paints bowls.", "Ana has a kayak.", *OTHERS)

    replies, _ = await play(
        memory,
        model,
        merge(1, 2, into=CRAFTS),
        update(9, f"{CRAFTS} Pottery, Mondays; hammock."),
        update(9, f"{CRAFTS} Pottery, Mondays; hammock, sunset."),
        delete(4),
        update(3, "Ana paints jars."),
    )

    first, second, third, deleted, jars = map(lost, replies)
    # a bowl is said elsewhere, where nobody finds this; a Monday is named as a missing detail
    assert {"pottery", "hammock", "sunset", "bowl"} <= words(first)
    assert {"Mondays", "proud"}.isdisjoint(words(first))
    assert "sunset" in words(second)
    assert {"hammock", "Mondays"}.isdisjoint(words(second))
    assert "sunset" not in words(third)
    assert deleted == ["a kayak"]
    assert jars == ["paints bowls"]
    assert all(map(USAGE.search, replies))


async def test_protected_memories_and_subjects_count_and_few_are_listed(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    many = [f"{chr(97 + place)}{chr(100 + place % 20)}zzle" for place in range(26)]
    full = draft(f"Harald has a hammock: {' it is the '.join(many)}.", kind="core")
    of_harald = replace(draft("He swims.", kind="core"), subject="Harald")
    made = await keep(memory, "Ana keeps a hammock.", full, of_harald, "Ana swims.")
    set_protected(superuser, made[0])

    (answer,), _ = await play(memory, model, delete(2))

    assert [phrase.split()[1] for phrase in lost(answer)] == many[:24]
    assert "2 more" in answer


@pytest.mark.parametrize(("target", "is_told"), [(60, True), (9, False)])
async def test_a_session_with_room_left_tells_once_what_all_of_it_has_lost(
    clean_db: Clone, model: LoopbackModel, target: int, is_told: bool
) -> None:
    async with scripted_memory(clean_db, model, refinement_target_tokens=target) as memory:
        await keep(memory, POTTERY, HAMMOCK, "Ana has a red kayak.", "Ana has a lute.", *OTHERS)
        calls = [delete(4), merge(1, 2, into=CRAFTS), update(9, f"{CRAFTS} Bowls.")]
        end = [complete("First."), update(9, f"{CRAFTS} Pottery, bowls."), complete("Second.")]
        replies, result = await play(memory, model, *calls, *end)
        (journal,) = await memory.memories(ANA, ["journal"])
        left = await living(memory)

    assert result.ended == "completed"
    assert journal.content.endswith("Second." if is_told else "First.")
    assert (f"{CRAFTS} Pottery, bowls." in left) == is_told
    if is_told:
        told = words(lost(replies[3]))
        assert {"pottery", "hammock", "sunset", "lute"} <= told
        assert "kayak" not in told


async def test_a_session_that_lost_nothing_ends_at_once(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory, POTTERY, HAMMOCK)

    _, result = await play(memory, model, update(1, "Ana makes pottery Mondays, proud of every single bowl."))

    assert (result.ended, result.steps, len(model.chat_requests)) == ("completed", 2, 2)
