"""Governance as methods of `Mnemic` and `Administration`, which does it blind: rollback, protection, erasure."""

import json
import traceback
import uuid
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.memory.governance import rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import (
    MnemicError,
    UnknownMemoryError,
    UnknownOperationError,
)
from mnemic.state.governance import RollbackOptions
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from mnemic.storage.schema import ADMIN_ROLE, SERVICE_ROLE
from tests.support.erasing import form
from tests.support.loopback import LoopbackModel
from tests.support.refinements import BOTH, ENGLISH, SHORT, refined, set_protected
from tests.support.rollbacks import ANA, again, everything, forgotten, op_ids, saved, states, undo
from tests.support.scripted import FACTS, fact, facts, say, turns
from tests.support.server import Clone, fast_directory
from tests.support.worlds import identity, message, remember, text_of
from tests.support.worlds import memory as stored

BEES, BOAT = "Ana keeps bees.", "Ana has a boat."
UNKNOWN = uuid.UUID(int=1)


@pytest.mark.parametrize("face", ["Mnemic", "Administration"])
async def test_the_same_methods_roll_back_for_a_person_and_an_administrator(
    memory: Mnemic, administration: Administration, db: Database, face: str
) -> None:
    history: Any = memory.history if face == "Mnemic" else administration.history
    whose = ANA if face == "Mnemic" else Identity(agent_id="harbor")

    async def living() -> set[str]:
        return {item.content for item in await memory.memories(ANA.model_copy(update={"role": "owner"}))}

    began = datetime.now(UTC) - timedelta(minutes=1)
    (bees,) = await saved(db, BEES)
    await forgotten(db, bees)
    await saved(db, BOAT)
    stored, forgot, first = (item.id for item in await history.operations(whose))
    assert (
        await history.operations(whose, session_id="s1", since=began, limit=1) == (await history.operations(whose))[:1]
    )

    assert (await history.undo(whose, forgot, dry_run=True)).op_id is None
    assert await living() == {BOAT}
    undone = await history.undo(whose, str(forgot))
    newest = (await history.operations(whose))[0]
    assert (newest.id, newest.undo_of, newest.events) == (undone.op_id, forgot, {"RESTORE": 1})
    who = {"Mnemic": ("ana", "person"), "Administration": ("administrator", "admin")}[face]
    assert (newest.actor, newest.actor_kind, newest.reason) == (*who, "undo")
    assert (newest.scope_keys, newest.token_delta) == (["user:ana"], 4)
    assert await living() == {BEES, BOAT}
    await history.undo(whose, undone.op_id, stored)
    assert await living() == set()
    await history.restore(whose, "user:ana", 3)
    assert await living() == {BOAT}
    await history.undo(whose, first, cascade=True, skip_erased=True)
    assert await living() == {BOAT}
    await history.undo_session(whose, "s1", began, cascade=True)
    assert await living() == set()
    assert [item.id for item in await history.as_of(whose, "user:ana", 1)] == [bees.id]
    with pytest.raises(UnknownOperationError):
        await history.undo_refinement(whose, UNKNOWN)


# -- protection by administrators


async def test_only_a_living_memory_of_the_agent_is_known(
    memory: Mnemic, administration: Administration, resources: Resources, superuser: psycopg.Connection
) -> None:
    bees, boat, kept = await saved(resources.database, "Ana keeps bees.", "Ana has a boat.", "Ana paints.")
    await forgotten(resources.database, bees)
    await memory.privacy.erase(ANA, boat.id)
    before = everything(superuser)
    for agent, memory_id in (
        ("harbor", bees.id),
        ("harbor", boat.id),
        ("museum", kept.id),
        ("harbor", uuid.UUID(int=1)),
    ):
        for act in (administration.protect, administration.unprotect):
            with pytest.raises(UnknownMemoryError, match="nothing was written"):
                await act(Identity(agent_id=agent), memory_id)
    assert everything(superuser) == before
    assert (await administration.protect(Identity(agent_id="harbor"), kept.id)).changed  # the control


# -- `privacy.erase`, `privacy.erase_person` and `Administration.purge`


async def test_what_is_erased_is_found_no_more_and_its_history_says_when(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact("Ana keeps bees.")))
    await say(memory, ANA, "Well, I do")
    (bees,) = [item.id for item in await memory.memories(ANA, ["fact"])]
    assert (await memory.privacy.erase(ANA, str(bees))).erased == (bees,)
    assert await memory.memories(ANA, with_closed=False) == []
    assert await memory.query(ANA, "bees well") == []
    assert text_of((await memory.recall(ANA, "bees", search="always")).context) == ""
    rows = await memory.history.events(ANA, bees)
    assert [(row.event, row.before or row.after or None) for row in rows] == [("ADD", None), ("ERASE", None)]
    assert (await memory.privacy.erase(ANA, bees)).erased == ()
    assert not (await memory.forget(ANA, bees)).changed


async def test_a_session_alone_takes_its_own_memories_and_no_persons_words(
    db: Database, memory: Mnemic, superuser: psycopg.Connection
) -> None:
    said, answer = message("Well"), message("Good", user=None, role="assistant")
    task = stored("The list is open.", kind="reflection", key="session:s1", sources=[said, answer])
    await form(db, ANA, [said, answer], task)
    assert (await memory.privacy.erase(identity(None, session="s1"), task.id)).erased == (task.id,)
    left = superuser.execute("select id, content from mnemic.messages where content is not null").fetchall()
    assert left == [(said.id, "Well")]


# -- a refinement undone as a whole


OPTIONS, DRY = RollbackOptions(), RollbackOptions(dry_run=True)


async def merged(memory: Mnemic, model: LoopbackModel, **how: Any) -> UUID:
    """Two core memories, and the refinement that has merged them."""
    result = await refined(memory, model, SHORT, ENGLISH, into=BOTH, **how)
    return result.id or uuid.UUID(int=0)


def living(superuser: psycopg.Connection) -> set[str]:
    """What is said, journals of refinements as such."""
    said = (text for text, state in states(superuser).items() if state == "active")
    return {"journal" if text.startswith("Refinement: ") else text for text in said}


async def test_all_of_it_is_undone_and_done_again(
    actor: Principal, memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    before = everything(superuser)
    planned = await rollback.undo(actor, None, DRY, refinement_id=refinement_id)
    assert (planned.op_id, len(planned.changes)) == (None, 4)
    assert everything(superuser) == before

    undone = await rollback.undo(actor, None, OPTIONS, refinement_id=refinement_id)
    assert undone.op_id is not None
    assert living(superuser) == {SHORT, ENGLISH}
    await undo(actor, undone.op_id)
    assert living(superuser) == {BOTH, "journal"}


async def test_an_unknown_one_and_somebody_elses_are_refused(
    memory: Mnemic, administration: Administration, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    refinement_id = await merged(memory, model)
    before = everything(superuser)
    bo = identity("bo")
    for act in (
        memory.history.undo_refinement(ANA, uuid.UUID(int=1)),
        memory.history.undo_refinement(bo, refinement_id),
        administration.history.undo_refinement(Identity(agent_id="harbor"), uuid.UUID(int=1)),
        administration.history.undo_refinement(Identity(agent_id="museum"), refinement_id),
    ):
        with pytest.raises(UnknownOperationError):
            await act
    assert await memory.admin.refinements(bo) == []
    assert await administration.refinements(Identity(agent_id="museum")) == []
    assert everything(superuser)["history"] == before["history"]
    assert [item.id for item in await memory.admin.refinements(ANA)] == [refinement_id]  # the control
    assert await administration.refinements(Identity(agent_id="harbor")) == await memory.admin.refinements(ANA)


CANARY = "quincunx"
#: Functions that act for it, of which none tells what a memory says.
CALLABLE = {
    "agent_ids",
    "metadata_as_of",
    "audit_problems",
    "forget_messages",
    "contribution_keys",
    "plan_rollback",
    "purge_expired",
    "roll_back",
    "set_protection",
    "shared_operations",
    "changes_memory",
}
_FUNCTIONS = """
select distinct p.proname from pg_proc p
 where p.pronamespace = 'mnemic'::regnamespace and has_function_privilege(%s, p.oid, 'execute')
   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
"""


def test_the_role_calls_what_is_made_for_it_and_nothing_else(superuser: psycopg.Connection) -> None:
    assert {name for (name,) in superuser.execute(_FUNCTIONS, (ADMIN_ROLE,)).fetchall()} == CALLABLE
    of_the_service = {name for (name,) in superuser.execute(_FUNCTIONS, (SERVICE_ROLE,)).fetchall()}
    assert {"agent_ids", "audit_problems", "chain_links"} & of_the_service == {"chain_links"}  # it exports, no more


async def test_the_role_sees_the_agent_that_its_transaction_named(clean_db: Clone, resources: Resources) -> None:
    await saved(resources.database, "Ana keeps bees.")
    await saved(resources.database, "Ana paints.", who=identity("ana", agent="museum"))
    with clean_db.as_role(ADMIN_ROLE) as administrator:
        for agent, seen in {"harbor": {"harbor"}, "museum": {"museum"}, "": set()}.items():
            assert _agents(administrator, agent) == seen


@pytest.mark.thorough
async def test_without_its_policy_it_would_see_every_agent(fresh_db: Clone) -> None:
    """The control."""
    async with fresh_db.database() as db:
        await saved(db, "Ana keeps bees.")
        await saved(db, "Ana paints.", who=identity("ana", agent="museum"))
    with fresh_db.as_superuser() as superuser:
        superuser.execute("alter policy administrator on mnemic.history using (true)")
    with fresh_db.as_role(ADMIN_ROLE) as administrator:
        assert _agents(administrator, "harbor") == {"harbor", "museum"}


def _agents(administrator: psycopg.Connection, agent: str) -> set[str]:
    administrator.execute("select set_config('mnemic.agent_id', %s, false)", (agent,))
    return {found for (found,) in administrator.execute("select agent_id from mnemic.history").fetchall()}


async def told(*acts: Awaitable[object]) -> str:
    """All that calls answer and raise, as anybody would print or log it."""
    said = []
    for act in acts:
        try:
            said.append(repr(await act))
        except MnemicError as error:
            said += traceback.format_exception(error)
            said += [str(error), repr(error), repr(vars(error))]
    return "\n".join(said)


@pytest.fixture
async def canaries(memory: Mnemic, model: LoopbackModel, resources: Resources, superuser: psycopg.Connection) -> None:
    """A message, and memories forgotten, doubled, refined, protected and erased, that all say what nobody may read."""
    await memory.observe(ANA, turns(f"My word is {CANARY}."))
    first, second, third = await saved(resources.database, *(f"{CANARY} {number}" for number in range(3)))
    await forgotten(resources.database, first, second)
    await remember(resources.database, ANA, again(first))
    set_protected(superuser, third)
    await memory.privacy.erase(ANA, second.id)
    await refined(memory, model, f"{CANARY}, short.", f"{CANARY}, in English.", into=CANARY)


@pytest.mark.usefixtures("canaries")
async def test_administration_answers_and_errors_contain_no_memory_text(
    memory: Mnemic, administration: Administration, superuser: psycopg.Connection
) -> None:
    began, ops = datetime.now(UTC) - timedelta(hours=1), op_ids(superuser)
    assert CANARY in json.dumps(everything(superuser))
    said = await told(
        administration.history.operations(Identity(agent_id="harbor")),
        *(administration.history.undo(Identity(agent_id="harbor"), op, dry_run=True) for op in ops),
        *(administration.history.undo(Identity(agent_id="harbor"), op) for op in ops),
        administration.history.undo_session(Identity(agent_id="harbor"), "s1", began),
        administration.history.restore(Identity(agent_id="harbor"), "user:ana", 3),
        administration.history.restore(Identity(agent_id="harbor"), "user:ana", 3, skip_erased=True, dry_run=True),
        administration.history.as_of(Identity(agent_id="harbor"), "user:ana", 3),
        administration.refinements(Identity(agent_id="harbor")),
        *(
            administration.history.undo_refinement(Identity(agent_id="harbor"), item.id)
            for item in await memory.admin.refinements(ANA)
        ),
        *(
            administration.protect(Identity(agent_id="harbor"), item.id)
            for item in await memory.memories(ANA, with_closed=True)
        ),
    )
    assert "RollbackConflictError" in said
    assert "ContentErasedError" in said
    assert "PastMemory" in said
    assert "Refinement(" in said
    assert "UnknownMemoryError" in said
    assert CANARY not in said
    assert CANARY in await told(memory.history.as_of(ANA, "user:ana", 3))  # the control: the person sees it


@pytest.mark.thorough
async def test_the_embedded_server_lets_administrators_in() -> None:
    """In a directory that the server's account can reach, which pytest's own is not for root."""
    with TemporaryDirectory(dir=fast_directory(), prefix="mnemic-administered-") as base:
        async with Mnemic.open(embedder="hash", settings=Settings(data_dir=base)) as memory:
            await memory.remember(ANA, "Ana keeps bees.", category="activity")
            async with Administration.open(settings=Settings(data_dir=base)) as administration:
                (op,) = await administration.history.operations(Identity(agent_id="harbor"))
                assert (await administration.history.undo(Identity(agent_id="harbor"), op.id)).changes
            assert await memory.memories(ANA) == []
