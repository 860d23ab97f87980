"""What a person brought into groups and the whole agent says whose word it is, is listed, and is taken back as one."""

from typing import Any

import pytest

from mnemic import Administration, Mnemic
from mnemic.state.errors import InvalidInputError, RollbackConflictError
from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    consolidation,
    contents,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    say,
    turns,
)
from tests.support.worlds import identity, text_of

ANA = identity("ana", session="s1", groups=["crew"], teaches=True)
BO = identity("bo", session="s2", groups=["crew"])
OWN, CREW, ALL = "Ana mends sails.", "The crew meets on Mondays at the pier.", "The harbor office opens at eight."
BOS = "The crew sails on Sundays past the lighthouse."


async def brought(memory: Mnemic, model: LoopbackModel) -> None:
    """One formation of Ana's with a fact of each width, and a word of Bo's."""
    model.answer(FACTS, facts(fact(OWN), fact(CREW, 2, scope="group"), fact(ALL, 3, scope="agent")))
    said = ("I mend sails.", CREW, ALL)
    await say(memory, ANA, *said, *["assistant: ok"] * 3)
    await memory.remember(BO, BOS, category="projects", scope="group")


async def test_what_is_shared_says_whose_word_it_is_to_the_others(memory: Mnemic, model: LoopbackModel) -> None:
    await brought(memory, model)
    await memory.remember(ANA, "The crew never sails alone.", category="knowledge", kind="core", scope="group")
    shown = text_of((await memory.recall(BO, "When does the crew meet?", search="always"))["context"])

    assert f"{CREW} (from Ana)" in shown
    assert "- The crew never sails alone. (from Ana)" in shown
    assert f"{BOS} (from Bo)" in shown
    assert f"{OWN}\n" in text_of((await memory.recall(ANA, "Who mends sails?", search="always"))["context"])


async def take_back(memory: Mnemic, administration: Administration, who: Identity | None, **how: Any) -> Any:
    if who:
        return await memory.unshare(who, **how)
    return await administration.unshare("harbor", "ana", **how)


@pytest.mark.parametrize("who", [ANA, None], ids=["the person", "an administrator"])
async def test_it_is_listed_and_taken_back_as_one_operation_that_can_be_undone(
    memory: Mnemic, administration: Administration, model: LoopbackModel, who: Identity | None
) -> None:
    await brought(memory, model)
    listed = await memory.shared(ANA)
    assert {row.content for row in listed} == {CREW, ALL}
    planned = await take_back(memory, administration, who, dry_run=True)
    assert {change.memory_id for change in planned.changes} == {row.id for row in listed}

    done = await take_back(memory, administration, who)
    assert await contents(memory, ANA) == sorted([OWN, BOS])
    assert await contents(memory, BO) == [BOS]
    assert await memory.shared(ANA) == []
    assert (await take_back(memory, administration, who)).changes_nothing
    (told,) = [row for row in await administration.operations("harbor") if row.op_id == done.op_id]
    assert told.actor_kind == ("person" if who else "admin")

    await administration.undo("harbor", done.op_id)
    assert await contents(memory, BO) == sorted([CREW, ALL, BOS])


async def test_of_groups_that_one_does_not_name_and_of_others_nothing_goes(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await brought(memory, model)
    await memory.unshare(identity("ana"))
    assert await contents(memory, BO) == sorted([CREW, BOS])
    assert (await memory.unshare(identity("cleo", groups=["crew"]))).changes_nothing
    with pytest.raises(InvalidInputError):
        await memory.unshare(identity(None, groups=["crew"]))


async def test_what_others_made_of_it_goes_where_that_is_said(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(REFLECTIONS, reflections(group=[reflection(CREW)]))
    await say(memory, ANA, CREW, *["assistant: ok"] * 3)
    model.answer(CONSOLIDATION, consolidation(CREW))
    await memory.consolidate(BO, "group:crew", force=True)
    with pytest.raises(RollbackConflictError):
        await memory.unshare(ANA)
    assert CREW in text_of((await memory.recall(BO, "Hello"))["context"])

    await memory.unshare(ANA, cascade=True)
    assert CREW not in text_of((await memory.recall(BO, "Hello"))["context"])


async def test_of_one_formation_each_member_answers_for_their_own_words_and_takes_back_those_alone(
    memory: Mnemic, model: LoopbackModel
) -> None:
    old = "The crew meets on Fridays at the pier."
    await memory.remember(BO, old, category="projects", scope="group")
    model.answer(FACTS, facts(fact(CREW, 1, scope="group"), fact(BOS, 2, scope="group")))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1, text=CREW)))
    both = ANA.model_copy(update={"members": ("bo",)})
    said = [
        *turns("The crew meets on Mondays at the pier."),
        *turns(BOS, user="bo", minutes=1),
        *turns("assistant: ok"),
    ]
    await memory.observe(both, said, several_speakers=True)
    await memory.form(both, force=True)
    assert {row.content: row.author for row in await memory.memories(BO, ["fact"])} == {CREW: "ana", BOS: "bo"}

    await memory.unshare(ANA)
    assert await contents(memory, BO) == sorted([BOS, old])
    assert [row.content for row in await memory.shared(BO)] != []


async def test_what_a_person_corrected_goes_with_what_they_corrected_it_from(memory: Mnemic) -> None:
    first = await memory.remember(ANA, CREW, category="projects", scope="group")
    assert first.id
    await memory.correct(ANA, first.id, "The crew meets on Tuesdays at the pier.")
    await memory.unshare(ANA)
    assert await contents(memory, BO) == []
    assert await memory.shared(ANA) == []
