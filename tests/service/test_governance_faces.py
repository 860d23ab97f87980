"""Governance as methods of `Mnemic` and `Administration`: rollback, protection, erasure, a refinement undone."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.operations.governance import rollback
from mnemic.operations.governance.actor import Actor
from mnemic.operations.run.resources import Resources
from mnemic.state.errors import NotForgottenError, RollbackConflictError, UnknownMemoryError, UnknownOperationError
from mnemic.state.governance import RollbackOptions
from mnemic.state.identity import Identity
from mnemic.state.records import ScopeSettings
from mnemic.storage.database import Database
from tests.support.erasing import form
from tests.support.loopback import LoopbackModel
from tests.support.refinements import BOTH, ENGLISH, SHORT, refined
from tests.support.rollbacks import ANA, everything, forgotten, saved, states, undo
from tests.support.scripted import FACTS, fact, facts, say
from tests.support.server import Clone
from tests.support.worlds import identity, message
from tests.support.worlds import memory as stored

BEES, BOAT = "Ana keeps bees.", "Ana has a boat."
UNKNOWN = uuid.UUID(int=1)


@pytest.mark.parametrize("face", ["Mnemic", "Administration"])
async def test_the_same_methods_roll_back_for_a_person_and_an_administrator(
    memory: Mnemic, administration: Administration, db: Database, face: str
) -> None:
    machine: Any = memory if face == "Mnemic" else administration
    whose = ANA if face == "Mnemic" else "harbor"

    async def living() -> set[str]:
        return {one.content for one in await memory.memories(ANA.model_copy(update={"role": "owner"}))}

    began = datetime.now(UTC) - timedelta(minutes=1)
    (bees,) = await saved(db, BEES)
    await forgotten(db, bees)
    await saved(db, BOAT)
    stored, forgot, first = (one.op_id for one in await machine.operations(whose))
    assert (
        await machine.operations(whose, session_id="s1", since=began, limit=1) == (await machine.operations(whose))[:1]
    )

    assert (await machine.undo(whose, forgot, dry_run=True)).op_id is None
    assert await living() == {BOAT}
    undone = await machine.undo(whose, str(forgot))
    assert await living() == {BEES, BOAT}
    await machine.undo(whose, undone.op_id, stored)
    assert await living() == set()
    await machine.restore(whose, "user:ana", 3)
    assert await living() == {BOAT}
    await machine.undo(whose, first, cascade=True, skip_erased=True)
    assert await living() == {BOAT}
    await machine.undo_session(whose, "s1", began, cascade=True)
    assert await living() == set()
    assert [one.id for one in await machine.as_of(whose, "user:ana", 1)] == [bees.id]
    with pytest.raises(UnknownOperationError):
        await machine.undo_refinement(whose, UNKNOWN)


async def test_no_tool_of_any_role_reaches_it(memory: Mnemic) -> None:
    roles = ["supervisor", "planner", "stylist", "researcher", "executor"]
    names = {tool.name for role in roles for tool in memory.tools(role)}
    assert names == {"memory_query", "remember", "remember_procedure", "forget"}


# -- protection by administrators


def events(superuser: psycopg.Connection) -> list[tuple[Any, ...]]:
    rows = superuser.execute(
        "select event, actor, actor_kind, reason from mnemic.history where event like '%PROTECT' order by seq"
    )
    return rows.fetchall()


async def test_it_is_set_and_lifted_and_the_audit_names_who_did(
    clean_db: Clone, resources: Resources, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(resources.database, "Ana keeps bees.")
    async with Administration.open(admin_url=clean_db.administrator_dsn, actor="keeper") as administration:
        changes = [
            await administration.protect("harbor", bees.id),
            await administration.protect("harbor", str(bees.id)),
            await administration.unprotect("harbor", bees.id),
            await administration.unprotect("harbor", bees.id),
        ]
        assert changes == [True, False, True, False]
        assert await administration.verify("harbor") == []
    assert events(superuser) == [
        ("PROTECT", "keeper", "admin", "protection"),
        ("UNPROTECT", "keeper", "admin", "protection"),
    ]


async def test_only_a_living_memory_of_the_agent_is_known(
    memory: Mnemic, administration: Administration, resources: Resources, superuser: psycopg.Connection
) -> None:
    bees, boat, kept = await saved(resources.database, "Ana keeps bees.", "Ana has a boat.", "Ana paints.")
    await forgotten(resources.database, bees)
    await memory.erase(ANA, boat.id)
    before = everything(superuser)
    for agent, memory_id in (
        ("harbor", bees.id),
        ("harbor", boat.id),
        ("museum", kept.id),
        ("harbor", uuid.UUID(int=1)),
    ):
        for act in (administration.protect, administration.unprotect):
            with pytest.raises(UnknownMemoryError, match="nothing was written"):
                await act(agent, memory_id)
    assert everything(superuser) == before
    assert await administration.protect("harbor", kept.id)  # the control


async def test_what_an_agent_protected_an_administrator_lifts(
    memory: Mnemic, administration: Administration, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await refined(memory, model, SHORT, ENGLISH, into=BOTH, protects=True)
    (law,) = await memory.memories(ANA, ["core"])
    with pytest.raises(NotForgottenError):
        await memory.forget(ANA, law.id)
    assert await administration.unprotect("harbor", law.id)
    await memory.forget(ANA, law.id)
    assert [event[0] for event in events(superuser)] == ["PROTECT", "UNPROTECT"]


# -- `Mnemic.erase`, `Mnemic.erase_person` and `Administration.purge`


BO = identity("bo", session="s9")


async def kept(service: Mnemic, model: LoopbackModel, who: Identity, text: str) -> uuid.UUID:
    model.answer(FACTS, facts(fact(text)))
    await say(service, who, "Well, I do")
    (one,) = [one for one in await service.memories(who, ["fact"]) if one.content == text]
    return one.id


async def test_what_is_erased_is_found_no_more_and_its_history_says_when(memory: Mnemic, model: LoopbackModel) -> None:
    bees = await kept(memory, model, ANA, "Ana keeps bees.")
    assert (await memory.erase(ANA, str(bees))).erased == (bees,)
    assert await memory.memories(ANA, with_closed=False) == []
    assert await memory.query(ANA, "bees well") == []
    assert (await memory.recall(ANA, "bees", search="always"))["context"] == ""
    told = await memory.history(ANA, bees)
    assert [(one.event, one.before, one.after or None) for one in told] == [("ADD", None, None), ("ERASE", None, None)]
    assert (await memory.erase(ANA, bees)).erased == ()
    assert not await memory.forget(ANA, bees)


async def test_erasing_a_person_takes_their_settings_and_nobody_elses(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    hers, his = await kept(memory, model, ANA, "Ana keeps bees."), await kept(memory, model, BO, "Bo sails.")
    for who, key in ((ANA, "user:ana"), (BO, "user:bo")):
        await memory.configure_scope(who, ScopeSettings(scope_key=key, name="Somebody", extraction_guidance="Briefly."))
    assert (await memory.erase_person(ANA)).erased == (hers,)
    assert [one.id for one in await memory.memories(BO, ["fact"])] == [his]
    named = superuser.execute("select scope_key, name from mnemic.scopes where extraction_guidance is not null")
    assert named.fetchall() == [("user:bo", "Somebody")]


async def test_a_session_alone_takes_its_own_memories_and_no_persons_words(
    db: Database, memory: Mnemic, superuser: psycopg.Connection
) -> None:
    said, answer = message("Well"), message("Good", user=None, role="assistant")
    task = stored("The list is open.", kind="reflection", key="session:s1", sources=[said, answer])
    await form(db, ANA, [said, answer], task)
    assert (await memory.erase(identity(None, session="s1"), task.id)).erased == (task.id,)
    left = superuser.execute("select id, content from mnemic.messages where content is not null").fetchall()
    assert left == [(said.id, "Well")]


# -- a refinement undone as a whole


OPTIONS, DRY = RollbackOptions(), RollbackOptions(dry_run=True)


async def merged(memory: Mnemic, model: LoopbackModel, **how: Any) -> UUID:
    """Two core memories, and the refinement that has merged them."""
    result = await refined(memory, model, SHORT, ENGLISH, into=BOTH, **how)
    assert (result["ended"], result["merged"]) == ("completed", 2)
    return UUID(result["refinement_id"])


def living(superuser: psycopg.Connection) -> set[str]:
    """What is said, journals of refinements as such."""
    said = (text for text, state in states(superuser).items() if state == "active")
    return {"journal" if text.startswith("Refinement: ") else text for text in said}


async def test_all_of_it_is_undone_and_done_again(
    actor: Actor, memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    before = everything(superuser)
    planned = await rollback.undo_refinement(actor, refinement_id, DRY)
    assert (planned.op_id, len(planned.changes)) == (None, 4)
    assert everything(superuser) == before

    undone = await rollback.undo_refinement(actor, refinement_id, OPTIONS)
    assert undone.op_id is not None
    assert living(superuser) == {SHORT, ENGLISH}
    await undo(actor, undone.op_id)
    assert living(superuser) == {BOTH, "journal"}


async def test_what_it_protected_an_administrator_alone_undoes(
    actor: Actor, memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model, protects=True)
    before = everything(superuser)
    if actor.administers:
        await rollback.undo_refinement(actor, refinement_id, OPTIONS)
        assert living(superuser) == {SHORT, ENGLISH}
    else:
        with pytest.raises(RollbackConflictError):
            await rollback.undo_refinement(actor, refinement_id, OPTIONS)
        assert everything(superuser) == before


async def test_an_unknown_one_and_somebody_elses_are_refused(
    memory: Mnemic, administration: Administration, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    before = everything(superuser)
    bo = identity("bo")
    for act in (
        memory.undo_refinement(ANA, uuid.UUID(int=1)),
        memory.undo_refinement(bo, refinement_id),
        administration.undo_refinement("harbor", uuid.UUID(int=1)),
        administration.undo_refinement("museum", refinement_id),
    ):
        with pytest.raises(UnknownOperationError):
            await act
    assert await memory.refinements(bo) == []
    assert await administration.refinements("museum") == []
    assert {name: rows for name, rows in everything(superuser).items() if name != "heads"} == {
        name: rows for name, rows in before.items() if name != "heads"
    }
    assert [one.id for one in await memory.refinements(ANA)] == [refinement_id]  # the control
    assert await administration.refinements("harbor") == await memory.refinements(ANA)
