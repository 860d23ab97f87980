"""A refinement beside others that write or erase: what they changed while the model thought stays as they left it."""

import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mnemic.memory.refinement.editor import ContextMemoryEditor
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import RefinementOverError
from mnemic.state.identity import Identity
from mnemic.state.records import Memory
from mnemic.storage import memories
from mnemic.storage.transaction import ScopedTransaction
from tests.faults.checker import audit_problems
from tests.faults.refining import ANA, KEY
from tests.faults.strikes import REFINE, TrappedModel
from tests.support.erasing import CANARY, places, problems
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.matrix import mostly_thorough
from tests.support.mutating import mutate, worsen
from tests.support.refinements import (
    DONE,
    Call,
    answers,
    complete,
    delete,
    keep,
    living,
    merge,
    play,
    script,
    search,
    update,
)
from tests.support.scripted import meanwhile, scripted_memory, scripted_model
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, memory, operate

#: Changes something while the model thinks.
Meanwhile = Callable[[Mnemic, Clone], Coroutine[Any, Any, None]]

# -- changed meanwhile


async def only(mnemic: Mnemic, kind: Any) -> Memory:
    (found,) = await mnemic.memories(ANA, [kind])
    return found


async def absorb(mnemic: Mnemic, _: Clone) -> None:
    """A consolidation takes the reflection in."""
    wish, text = await only(mnemic, "reflection"), await only(mnemic, "consolidation")
    await operate(mnemic.resources.database, ANA, lambda tx: memories.absorb(tx, text.id, [wish.id]))


async def rewrite(mnemic: Mnemic, _: Clone) -> None:
    """A consolidation is written anew."""
    text = await only(mnemic, "consolidation")

    async def act(tx: ScopedTransaction) -> None:
        await memories.rewrite(tx, text, "Ana wants the newest words of all of them.")

    await operate(mnemic.resources.database, ANA, act)


async def protect(mnemic: Mnemic, clone: Clone) -> None:
    """An administrator protects the core memory."""
    core = await only(mnemic, "core")
    async with Administration.open(admin_url=clone.administrator_dsn) as administration:
        await administration.protect(Identity(agent_id=AGENT), core.id)


#: What there is: a memory of each kind.
CORE = {
    "core": memory("Ana wants answers that are short, and never long ones.", kind="core"),
    "reflection": memory("Ana wants tables in all answers, as often as she can have them.", kind="reflection"),
    "consolidation": memory("Ana wants the old words of all of them, again and again.", kind="consolidation"),
}
#: What happens, which memory is updated, and what the refusal says.
CHANGES: dict[str, tuple[Meanwhile, str, str]] = {
    "absorbed": (absorb, "reflection", "there is no memory [{}]"),
    "rewritten": (rewrite, "consolidation", "[{}] was changed by somebody else meanwhile"),
    "protected": (protect, "core", "[{}] is protected"),
}


async def update_meanwhile(clone: Clone, model: TrappedModel, change: str) -> tuple[list[str], list[str], list[str]]:
    """What an update is answered when its memory changed while the model thought, and the texts before and after that.

    Returns:
        The answers to it and to a look afterwards; what the memories say once it changed; and at the end.
    """
    act, kind, _ = CHANGES[change]
    then: list[str] = []
    async with scripted_memory(clone, model) as mnemic:
        await keep(mnemic, *CORE.values())

        async def changed() -> None:
            await act(mnemic, clone)
            then.extend(_texts(clone))

        rewording = update([*CORE].index(kind) + 1, "Ana wants answers in a model's own words.")
        turns = [meanwhile(changed, calling(rewording)), calling(search(query="wants")), calling(DONE)]
        model.answer(offering(REFINE), *turns)
        await mnemic.refine(ANA, KEY, force=True)
    return answers(model.chat_requests[-1]), then, _texts(clone)


def _texts(clone: Clone) -> list[str]:
    with clone.as_superuser() as superuser:
        rows = superuser.execute("select content from mnemic.memories where kind <> 'journal' order by id").fetchall()
    return [text for (text,) in rows]


@pytest.mark.parametrize("change", CHANGES)
async def test_what_changed_while_the_model_thought_is_refused_and_stays(
    clean_db: Clone, model: TrappedModel, change: str
) -> None:
    told, then, now = await update_meanwhile(clean_db, model, change)

    assert re.match(re.escape("Refused: " + CHANGES[change][2]).replace(r"\{\}", r"\d"), told[0]), told
    assert "model" not in " ".join(now)
    assert now == then
    if change == "rewritten":
        assert "Ana wants the newest words of all of them." in told[1]
    with clean_db.as_superuser() as superuser:
        assert audit_problems(superuser, AGENT) == []


@pytest.mark.thorough
async def test_control_an_update_that_looks_at_no_version_overwrites_it(
    clean_db: Clone, model: TrappedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, memories, rewrite=("version = %(version)s", "version >= %(version)s"))
    monkeypatch.setattr(
        ContextMemoryEditor, "require_editable", lambda self, number, **_: [self.session.by_number[number]]
    )
    told, then, now = await update_meanwhile(clean_db, model, "rewritten")

    assert "is changed" in told[0]
    assert now != then
    assert "model" in " ".join(now)


# -- a person is erased while a refinement runs, or after one moved their words


BO = identity("bo")
#: Its core memory a refinement may put in other words. In a group's it keeps whole lines, and no words move.
SHARED = f"agent:{AGENT}"
MAY = "The crew sails from Oslo every single May, with great joy."
NINE = "The crew eats at nine o'clock, together in the galley."
MINE = "The crew eats at nine, in the galley."
#: A change that loses no telling word, without which a session leaves no journal.
REWORDED = update(2, MAY.replace("with ", ""))
#: What the model may do with words that it has read before they were erased.
REPEATS: dict[str, Call] = {
    "merges": merge(
        2, 3, into=f"The crew sails from Oslo every May, eats at nine together in the galley, no {CANARY}."
    ),
    "rewrites": update(3, f"The crew eats at nine, in the galley, no {CANARY}."),
    "tells": complete(f"Kept that Ana has a {CANARY} allergy."),
}


async def keep_the_agents(mnemic: Mnemic) -> None:
    """Store core memories of the agent, the first of which tells of Ana."""
    hers = replace(memory(f"Ana of the crew has a {CANARY} allergy.", kind="core"), subject_user_id="ana")
    await keep(mnemic, hers, MAY, NINE, who=BO, key=SHARED)


async def erased_meanwhile(
    clone: Clone, model: LoopbackModel, repeat: Call, before: Callable[[], object] = lambda: None
) -> None:
    """A session of Bo's in which Ana is erased while the model thinks, which then repeats what it has read."""
    async with scripted_memory(clone, model) as mnemic:
        await keep_the_agents(mnemic)

        async def erase() -> None:
            before()
            await mnemic.privacy.erase_person(ANA)

        model.answer(offering(REFINE), calling(REWORDED), meanwhile(erase, calling(repeat)), calling(DONE))
        await mnemic.refine(BO, SHARED, force=True)


@pytest.mark.parametrize("repeat", mostly_thorough(REPEATS, "rewrites"))
async def test_what_a_model_read_before_an_erasure_is_not_written_after_it(
    clean_db: Clone, superuser: psycopg.Connection, repeat: Call
) -> None:
    with scripted_model() as model:
        with pytest.raises(RefinementOverError):
            await erased_meanwhile(clean_db, model, repeat)
        assert places(superuser) == set()

        script(model, DONE)
        async with scripted_memory(clean_db, model) as mnemic:
            result = await mnemic.refine(BO, SHARED, force=True)
        assert (result.ended, result.resumed) == ("completed", True)
        assert CANARY not in str(model.chat_requests[-1])
    assert problems(clean_db) == []


@pytest.mark.thorough
@pytest.mark.parametrize("repeat", REPEATS.values(), ids=REPEATS)
async def test_control_a_session_that_goes_on_writes_it_again(fresh_db: Clone, repeat: Call) -> None:
    with scripted_model() as model, fresh_db.as_superuser() as superuser:
        lapse = "drop trigger sessions_lapse on mnemic.memories"
        await erased_meanwhile(fresh_db, model, repeat, before=lambda: superuser.execute(lapse))
        assert "memories" in places(superuser)


async def moved_and_erased(clone: Clone, *calls: Call, meanwhile: Callable[[], None] = lambda: None) -> set[str]:
    """A session of Bo's, and the erasure of Ana when it is over; what is left of the core memory."""
    with scripted_model() as model:
        async with scripted_memory(clone, model) as mnemic:
            await keep_the_agents(mnemic)
            _, result = await play(mnemic, model, *calls, who=BO, key=SHARED)
            assert result.updated + result.merged > 0
            meanwhile()
            await mnemic.privacy.erase_person(ANA)
            return {*await living(mnemic, who=BO)}


SHORTEN = update(1, "Ana has an allergy.")
MOVES = {
    "rewritten, then deleted": (REPEATS["rewrites"], delete(1)),
    "deleted, then rewritten": (delete(1), REPEATS["rewrites"]),
    "merged with others' words": (REPEATS["merges"], delete(1)),
    "moved by two rewritings": (REPEATS["rewrites"], SHORTEN),
}


@pytest.mark.parametrize("calls", mostly_thorough(MOVES, "rewritten, then deleted"))
async def test_words_moved_by_a_refinement_are_erased_with_their_author(
    clean_db: Clone, superuser: psycopg.Connection, calls: tuple[Call, ...]
) -> None:
    assert await moved_and_erased(clean_db, *calls) >= {MAY}
    assert places(superuser) == set()
    assert problems(clean_db) == []


@pytest.mark.thorough
async def test_what_was_rewritten_in_words_of_its_own_stays(clean_db: Clone) -> None:
    assert await moved_and_erased(clean_db, update(3, MINE), delete(1)) == {MAY, MINE}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("h.event in ('DELETE', 'MERGE', 'UPDATE')", "deleted, then rewritten"),
        ("w.event = p_event", "merged with others' words"),
    ],
)
async def test_control_without_the_rule_they_stay(fresh_db: Clone, text: str, moved: str) -> None:
    with fresh_db.as_superuser() as superuser:
        await moved_and_erased(
            fresh_db, *MOVES[moved], meanwhile=lambda: mutate(superuser, "rewritten_with", text, "false")
        )
        assert "memories" in places(superuser)
