"""What a person brought into groups and the whole agent says whose word it is, is listed, and is taken back as one."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.state.errors import InvalidInputError, RollbackConflictError
from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel
from tests.support.matrix import few_first, mostly_thorough
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
    shown = text_of((await memory.recall(BO, "When does the crew meet?", search="always")).context)

    assert f"{CREW} (from Ana)" in shown
    assert "- The crew never sails alone. (from Ana)" in shown
    assert f"{BOS} (from Bo)" in shown
    assert f"{OWN}\n" in text_of((await memory.recall(ANA, "Who mends sails?", search="always")).context)


async def take_back(memory: Mnemic, administration: Administration, who: Identity | None, **how: Any) -> Any:
    if who:
        return await memory.privacy.unshare(who, **how)
    return await administration.unshare(Identity(agent_id="harbor", user_id="ana"), **how)


@pytest.mark.parametrize("who", [ANA, None], ids=["the person", "an administrator"])
async def test_it_is_listed_and_taken_back_as_one_operation_that_can_be_undone(
    memory: Mnemic, administration: Administration, model: LoopbackModel, who: Identity | None
) -> None:
    await brought(memory, model)
    listed = await memory.privacy.shared(ANA)
    assert {row.content for row in listed} == {CREW, ALL}
    planned = await take_back(memory, administration, who, dry_run=True)
    assert {change.id for change in planned.changes} == {row.id for row in listed}

    done = await take_back(memory, administration, who)
    assert await contents(memory, ANA) == sorted([OWN, BOS])
    assert await contents(memory, BO) == [BOS]
    assert await memory.privacy.shared(ANA) == []
    assert (await take_back(memory, administration, who)).changes_nothing
    (told,) = [
        row for row in await administration.history.operations(Identity(agent_id="harbor")) if row.id == done.op_id
    ]
    assert told.actor_kind == ("person" if who else "admin")

    await administration.history.undo(Identity(agent_id="harbor"), done.op_id)
    assert await contents(memory, BO) == sorted([CREW, ALL, BOS])


async def test_of_groups_that_one_does_not_name_and_of_others_nothing_goes(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await brought(memory, model)
    await memory.privacy.unshare(identity("ana"))
    assert await contents(memory, BO) == sorted([CREW, BOS])
    assert (await memory.privacy.unshare(identity("cleo", groups=["crew"]))).changes_nothing
    with pytest.raises(InvalidInputError):
        await memory.privacy.unshare(identity(None, groups=["crew"]))


async def test_what_others_made_of_it_goes_where_that_is_said(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(REFLECTIONS, reflections(group=[reflection(CREW)]))
    await say(memory, ANA, CREW, *["assistant: ok"] * 3)
    model.answer(CONSOLIDATION, consolidation(CREW))
    await memory.admin.consolidate(BO, "group:crew", force=True)
    with pytest.raises(RollbackConflictError):
        await memory.privacy.unshare(ANA)
    assert CREW in text_of((await memory.recall(BO, "Hello")).context)

    await memory.privacy.unshare(ANA, cascade=True)
    assert CREW not in text_of((await memory.recall(BO, "Hello")).context)


async def test_each_member_withdraws_only_their_own_words_of_a_shared_formation(
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

    await memory.privacy.unshare(ANA)
    assert await contents(memory, BO) == sorted([BOS, old])
    assert [row.content for row in await memory.privacy.shared(BO)] != []


async def test_what_a_person_corrected_goes_with_what_they_corrected_it_from(memory: Mnemic) -> None:
    first = await memory.remember(ANA, CREW, category="projects", scope="group")
    assert first.id
    await memory.correct(ANA, first.id, "The crew meets on Tuesdays at the pier.")
    await memory.privacy.unshare(ANA)
    assert await contents(memory, BO) == []
    assert await memory.privacy.shared(ANA) == []


# -- the past that others read

CLEO = identity("cleo", session="s3", groups=["crew"])
CORRECTED = "The crew meets at noon somewhere else."


async def everything_read(memory: Mnemic, reader: Identity, *ids: UUID) -> dict[str, str]:
    """All that a member reads of the crew's memories, today and before, by view."""
    owner = reader.model_copy(update={"role": "owner"})
    head = (await memory.history.updates(owner)).revision
    past = [
        await memory.history.as_of(owner, "group:crew", revision, with_closed=True) for revision in range(1, head + 1)
    ]
    told = [await memory.history.updates(owner, since) for since in range(head)]
    views: dict[str, object] = {
        "with_closed": await memory.memories(owner, with_closed=True),
        "as_of": past,
        "history": [await memory.history.events(owner, memory_id) for memory_id in ids],
        "updates": told,
        "search": await memory.query(owner, f'"{CREW}"'),
        "messages": [message for message in await memory.privacy.messages(owner) if message.user_id != reader.user_id],
        "recall": text_of((await memory.recall(owner, CREW, search="always")).context),
        "export": [line async for line in memory.privacy.export_audit(owner)],
    }
    return {view: repr(found) for view, found in views.items()}


def views_of(read: Mapping[str, str], text: str) -> set[str]:
    return {view for view, found in read.items() if text in found}


async def remembered(memory: Mnemic, model: LoopbackModel) -> UUID:
    """Ana's word for the crew."""
    kept = await memory.remember(ANA, CREW, category="projects", scope="group")
    assert kept.id
    return kept.id


async def corrected(memory: Mnemic, model: LoopbackModel) -> UUID:
    """Ana's word, which Bo corrected."""
    memory_id = await remembered(memory, model)
    await memory.correct(BO, memory_id, CORRECTED)
    return memory_id


async def consolidated(memory: Mnemic, model: LoopbackModel) -> UUID:
    """Ana's word in the second text of the crew, whose first one was made of Bo's."""
    for who, text in ((BO, BOS), (ANA, CREW)):
        model.answer(REFLECTIONS, reflections(group=[reflection(text)]))
        await say(memory, who, text, *["assistant: ok"] * 3)
        model.answer(CONSOLIDATION, consolidation(BOS if who is BO else f"{BOS} {CREW}"))
        await memory.admin.consolidate(BO, "group:crew", force=True)
    found = await memory.memories(ANA.model_copy(update={"role": "owner"}), ["reflection"], with_closed=True)
    (memory_id,) = [row.id for row in found if row.content == CREW]
    return memory_id


SHARING = {"in force": remembered, "corrected by another": corrected, "in a text of the group": consolidated}


_HOW = ("unshare", "erase", "erase_person")
_QUICK = [("corrected by another", "unshare"), ("in force", "erase")]
_OTHERS = [(way, how) for way in SHARING for how in _HOW if (way, how) not in _QUICK]


@pytest.mark.parametrize(("way", "how"), few_first([*_QUICK, *_OTHERS]))
async def test_withdrawn_memory_is_hidden_from_members_in_present_and_past_views(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, way: str, how: str
) -> None:
    memory_id = await SHARING[way](memory, model)
    before = await everything_read(memory, BO, memory_id)
    assert views_of(before, CREW) >= {"with_closed", "as_of", "history"}  # the control: they do show it

    if how == "unshare":
        await memory.privacy.unshare(ANA, cascade=True)
    elif how == "erase":
        assert memory_id in (await memory.privacy.erase(ANA, memory_id)).erased
    else:
        await memory.privacy.erase_person(ANA)
    for reader in (BO, CLEO):
        assert views_of(await everything_read(memory, reader, memory_id), CREW) == set()
    if way == "in a text of the group" and how == "unshare":
        assert BOS in text_of((await memory.recall(CLEO, "Hello")).context)
    if how == "unshare":
        assert CREW in repr(await memory.memories(ANA.model_copy(update={"role": "owner"}), with_closed=True))
        superuser.execute("set session_replication_role = replica")  # the control: the mark is what hides it
        superuser.execute("update mnemic.memories set withdrawn_by = null")
        superuser.execute("delete from mnemic.withdrawn")
        superuser.execute("set session_replication_role = origin")
        assert views_of(await everything_read(memory, CLEO, memory_id), CREW) >= {"as_of", "history"}


@pytest.mark.parametrize("way", mostly_thorough([*SHARING], "corrected by another"))
async def test_what_was_unshared_is_erased_by_its_id_and_shown_again_by_an_undo(
    memory: Mnemic, model: LoopbackModel, administration: Administration, way: str
) -> None:
    memory_id = await SHARING[way](memory, model)
    before = await everything_read(memory, BO, memory_id)
    done = await memory.privacy.unshare(ANA, cascade=True)
    assert done.op_id
    await administration.history.undo(Identity(agent_id="harbor"), done.op_id)
    again = await everything_read(memory, BO, memory_id)
    assert views_of(again, CREW) >= views_of(before, CREW) - {"updates"}

    await memory.privacy.unshare(ANA, cascade=True)
    assert (await memory.privacy.unshare(ANA)).changes_nothing
    assert (await memory.privacy.erase(BO, memory_id)).erased == ()
    assert memory_id in (await memory.privacy.erase(ANA, memory_id)).erased
    own = ANA.model_copy(update={"role": "owner"})
    assert views_of(await everything_read(memory, own, memory_id), CREW) <= {"search", "recall", "messages", "export"}
    assert await administration.verify(Identity(agent_id="harbor")) == []
