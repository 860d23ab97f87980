"""Rollback of operations and scope keys, alike on every surface: methods and commands of a person, an administrator."""

import uuid
from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from mnemic import Administration, Identity, Mnemic, Rollback
from mnemic.operations.run.resources import Resources
from mnemic.service.governance import time_machine as of_the_person
from mnemic.state.errors import InvalidInputError, MnemicError, RollbackRefusedError, UnknownOperationError
from mnemic.storage import memories
from mnemic.storage.database import Database, Scoped
from tests.support.chain import assert_chain_is_whole
from tests.support.loopback import LoopbackModel
from tests.support.rollbacks import ANA, again, everything, forgotten, op_ids, saved, states
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.surfaces import WAYS, Surface
from tests.support.worlds import MODEL, identity, operate, remember
from tests.support.worlds import memory as new_memory

#: The person's own, for what a person alone is refused.
OWN = [way for way in WAYS if "person" in way]
BO = identity("bo", session="s2")
BEES, PORTO, BOAT = "Ana keeps bees.", "Ana lives in Porto.", "Ana has a boat."
UNKNOWN = uuid.UUID(int=1)
#: The database's own check switched off.
EVERY_KEY = "create or replace function mnemic.own_keys(p_keys text[]) returns text[] language sql return p_keys"


@pytest.fixture
def db(resources: Resources) -> Database:
    return resources.database


async def refusal(surface: Surface, *ops: uuid.UUID, **switches: bool) -> MnemicError:
    """The error of an undo, which leaves every row as it is."""
    return await _refused(surface.undo(*ops, **switches))


async def _refused(act: Awaitable[object]) -> MnemicError:
    with pytest.raises(MnemicError) as caught:
        await act
    return caught.value


# -- which operation


async def test_the_newest_operation_is_undone(surface: Surface, db: Database, superuser: psycopg.Connection) -> None:
    (bees,) = await saved(db, BEES)
    await saved(db, BOAT)
    done = await surface.undo(op_ids(superuser)[-1])

    assert states(superuser) == {BEES: "active", BOAT: "soft_deleted"}
    assert [(one.before, one.after, one.scope_key) for one in done.changes] == [("active", "soft_deleted", "user:ana")]
    assert bees.id not in {one.memory_id for one in done.changes}
    assert_chain_is_whole(superuser, "harbor")


async def test_the_one_before_it_is_undone_and_the_newest_stays(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, BEES, PORTO)
    await saved(db, BOAT)
    done = await surface.undo(op_ids(superuser)[0])

    assert states(superuser) == {BEES: "soft_deleted", PORTO: "soft_deleted", BOAT: "active"}
    assert len(done.changes) == 2


async def test_both_are_undone_as_one_operation(surface: Surface, db: Database, superuser: psycopg.Connection) -> None:
    (bees,) = await saved(db, BEES)
    await forgotten(db, bees)
    first, second = op_ids(superuser)
    done = await surface.undo(first, second)

    assert states(superuser) == {BEES: "soft_deleted"}
    assert done.changes == ()
    await saved(db, PORTO)
    await saved(db, BOAT)
    done = await surface.undo(*op_ids(superuser)[-2:])
    assert states(superuser) == {BEES: "soft_deleted", PORTO: "soft_deleted", BOAT: "soft_deleted"}
    assert op_ids(superuser)[-1] == done.op_id
    assert len(op_ids(superuser)) == 5


async def test_an_undone_operation_is_done_again_by_undoing_the_undo(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, BEES, PORTO)
    undone = await surface.undo(op_ids(superuser)[0])
    assert undone.op_id
    redone = await surface.undo(undone.op_id)
    assert redone.op_id
    assert states(superuser) == {BEES: "active", PORTO: "active"}
    await surface.undo(redone.op_id)
    assert states(superuser) == {BEES: "soft_deleted", PORTO: "soft_deleted"}


# -- what stands against it


async def test_a_later_change_is_a_conflict_that_is_listed(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(db, BEES)
    await forgotten(db, bees)
    first, later = op_ids(superuser)
    before = everything(superuser)
    refused = await refusal(surface, first)

    assert isinstance(refused, RollbackRefusedError)
    assert "later operations (1) changed the same memories" in str(refused)
    assert [one.op_id for one in refused.rollback.later] == [later]
    assert everything(superuser) == before


async def test_a_cascade_undoes_the_later_operations_too(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    bees, porto = await saved(db, BEES, PORTO)
    await forgotten(db, bees, porto)
    await saved(db, BOAT)
    undone = await surface.undo(op_ids(superuser)[1])  # the newest on these two
    assert undone.op_id
    assert states(superuser) == {BEES: "active", PORTO: "active", BOAT: "active"}
    done = await surface.undo(op_ids(superuser)[0], cascade=True)

    assert {one.op_id for one in done.later} == {op_ids(superuser)[1], undone.op_id}
    assert states(superuser) == {BEES: "soft_deleted", PORTO: "soft_deleted", BOAT: "active"}
    assert done.op_id
    await surface.undo(done.op_id)
    assert states(superuser) == {BEES: "active", PORTO: "active", BOAT: "active"}


async def test_a_living_twin_is_a_conflict_that_a_cascade_does_not_solve(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(db, BEES)
    await forgotten(db, bees)
    twin = again(bees)
    await remember(db, ANA, twin)
    before = everything(superuser)
    refused = await refusal(surface, op_ids(superuser)[1], cascade=True)

    assert "say the same" in str(refused)
    assert isinstance(refused, RollbackRefusedError)
    assert [one.memory_id for one in refused.rollback.twins] == [twin.id]
    assert everything(superuser) == before


async def test_two_that_would_come_back_in_one_place_are_each_others_twins(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(db, BEES)
    await forgotten(db, bees)
    twin = again(bees)
    await remember(db, ANA, twin)
    await forgotten(db, twin)
    ops = op_ids(superuser)
    refused = await refusal(surface, ops[1], ops[3])
    assert isinstance(refused, RollbackRefusedError)
    assert {one.memory_id for one in refused.rollback.twins} == {bees.id, twin.id}
    assert set(states(superuser).values()) == {"soft_deleted"}


async def test_a_protected_memory_is_rolled_back_by_an_administrator_alone(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(db, BEES)
    superuser.execute("select mnemic.set_protection('harbor', %s, true, 'admin')", (bees.id,))
    first, _ = op_ids(superuser)
    before = everything(superuser)
    if surface.administers:
        assert (await surface.undo(first, cascade=True)).changes
        assert states(superuser) == {BEES: "soft_deleted"}
    else:
        refused = await refusal(surface, first, cascade=True)
        assert "by an administrator only" in str(refused)
        assert isinstance(refused, RollbackRefusedError)
        assert [one.memory_id for one in refused.rollback.protected] == [bees.id]
        assert everything(superuser) == before


async def test_what_was_erased_is_named_and_left_where_that_is_wanted(
    surface: Surface, memory: Mnemic, db: Database, superuser: psycopg.Connection
) -> None:
    bees, porto = await saved(db, BEES, PORTO)
    await forgotten(db, bees, porto)
    await memory.erase(ANA, bees.id)
    refused = await refusal(surface, op_ids(superuser)[1])
    assert "was erased" in str(refused)
    assert isinstance(refused, RollbackRefusedError)
    assert [one.memory_id for one in refused.rollback.erased] == [bees.id]

    done = await surface.undo(op_ids(superuser)[1], skip_erased=True)
    assert [one.memory_id for one in done.changes] == [porto.id]
    assert states(superuser) == {"": "purged", PORTO: "active"}


# -- whose operation


async def test_an_unknown_id_is_refused(surface: Surface, db: Database, superuser: psycopg.Connection) -> None:
    await saved(db, BEES)
    before = everything(superuser)
    assert "No such operation" in str(await refusal(surface, UNKNOWN))
    assert everything(superuser) == before


async def test_the_ids_of_other_people_and_agents_are_as_unknown_ones(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, "Bo sails.", key="user:bo", who=BO)
    await saved(db, "Ana paints.", who=identity("ana", agent="museum", session="s1"))
    unknown = str(await refusal(surface, UNKNOWN))

    assert str(await refusal(surface, *op_ids(superuser, "museum"))) == unknown
    (of_bo,) = op_ids(superuser)
    if surface.administers:
        assert (await surface.undo(of_bo)).changes
    else:
        assert str(await refusal(surface, of_bo)) == unknown
        assert str(await refusal(surface, of_bo, cascade=True, skip_erased=True)) == unknown
        assert (await refusal(surface, of_bo, dry_run=True)).args[0] == unknown


async def test_of_an_operation_on_shared_keys_too_a_person_undoes_their_own_part(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    await remember(db, ANA, new_memory(BEES), new_memory(BOAT, key="group:crew"), new_memory(PORTO, key="agent:harbor"))
    (op,) = op_ids(superuser)
    done = await surface.undo(op)

    shared = "soft_deleted" if surface.administers else "active"
    assert states(superuser) == {BEES: "soft_deleted", BOAT: shared, PORTO: shared}
    assert len(done.changes) == (3 if surface.administers else 1)
    assert done.op_id
    await surface.undo(done.op_id)
    assert set(states(superuser).values()) == {"active"}


@pytest.mark.parametrize("fallen", ["the service's", "the database's", "both"])
async def test_whose_memories_are_a_persons_own_is_held_twice(
    fresh_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, fallen: str
) -> None:
    """Each of the two walls alone keeps Bo's memory; with both gone the same undo reaches it."""
    if fallen != "the database's":
        monkeypatch.setattr(of_the_person, "owner", lambda who: (who, [*who.scope_keys, "user:bo"]))
    async with scripted_memory(fresh_db, model) as service:
        with fresh_db.as_superuser() as superuser:
            if fallen != "the service's":
                superuser.execute(EVERY_KEY)
            await saved(service._resources.database, "Bo sails.", key="user:bo", who=BO)
            (of_bo,) = op_ids(superuser)
            if fallen == "both":
                assert (await service.undo(ANA, of_bo)).changes
            else:
                with pytest.raises(UnknownOperationError):
                    await service.undo(ANA, of_bo)


async def test_neither_a_role_nor_an_actor_gives_power(
    memory: Mnemic, db: Database, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(db, BEES)
    await saved(db, BOAT, key="group:crew")
    superuser.execute("select mnemic.set_protection('harbor', %s, true, 'admin')", (bees.id,))
    first, shared, _ = op_ids(superuser)
    for role in ("owner", "supervisor", "administrator", "mnemic_admin"):
        mighty = ANA.model_copy(update={"role": role, "actor_id": "administrator"})
        with pytest.raises(RollbackRefusedError, match="by an administrator only"):
            await memory.undo(mighty, first, cascade=True)
        with pytest.raises(UnknownOperationError):
            await memory.undo(mighty, shared)
        for key in ("group:crew", "agent:harbor", "user:bo", "session:s2"):
            with pytest.raises(InvalidInputError, match="an administrator restores what is shared"):
                await memory.restore(mighty, key, 0)
    assert states(superuser) == {BEES: "active", BOAT: "active"}


async def test_no_tool_of_any_role_reaches_the_time_machine(memory: Mnemic) -> None:
    roles = ["supervisor", "planner", "stylist", "researcher", "executor"]
    names = {tool.name for role in roles for tool in memory.tools(role)}
    assert names == {"memory_query", "remember", "remember_procedure", "forget"}


async def test_who_is_nobody_rolls_back_nothing(memory: Mnemic) -> None:
    nobody = Identity(agent_id="harbor")
    for act in (
        memory.operations(nobody),
        memory.undo(nobody, UNKNOWN),
        memory.undo_session(nobody, "s1", datetime.now(UTC)),
        memory.restore(nobody, "user:ana", 0),
    ):
        assert "need the person's id, or a session" in str(await _refused(act))


# -- a moment


async def test_a_scope_key_gets_back_what_it_had(surface: Surface, db: Database, superuser: psycopg.Connection) -> None:
    (bees,) = await saved(db, BEES)
    await saved(db, BOAT, key="group:crew")
    await forgotten(db, bees)
    await saved(db, PORTO)
    done = await surface.restore("user:ana", 2)

    assert states(superuser) == {BEES: "active", BOAT: "active", PORTO: "soft_deleted"}
    assert {(one.before, one.after) for one in done.changes} == {("soft_deleted", "active"), ("active", "soft_deleted")}
    assert done.op_id
    await surface.undo(done.op_id)
    assert states(superuser) == {BEES: "soft_deleted", BOAT: "active", PORTO: "active"}


async def test_a_moment_beyond_the_head_is_refused(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, BEES)
    before = everything(superuser)
    assert "come as far as 1" in str(await _refused(surface.restore("user:ana", 2)))
    assert everything(superuser) == before


async def test_a_time_within_an_operation_means_the_one_before(
    surface: Surface, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, BEES)

    await operate(db, ANA, partial(_add, BOAT), partial(_add, PORTO))
    first, last = _times(superuser, op_ids(superuser)[1])
    assert first < last

    await surface.restore("user:ana", first)
    assert states(superuser) == {BEES: "active", BOAT: "soft_deleted", PORTO: "soft_deleted"}
    await surface.restore("user:ana", last)
    assert states(superuser) == {BEES: "active", BOAT: "active", PORTO: "active"}


async def test_an_operations_seqs_name_the_moments_before_and_after_it(
    surface: Surface, memory: Mnemic, administration: Administration, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, BEES)
    await operate(db, ANA, partial(_add, BOAT), partial(_add, PORTO))
    newest, _ = await memory.operations(ANA)
    assert newest.last_seq - newest.first_seq == 1

    await surface.restore("user:ana", newest.first_seq - 1)
    assert states(superuser) == {BEES: "active", BOAT: "soft_deleted", PORTO: "soft_deleted"}
    assert "lies within an operation" in str(await _refused(surface.restore("user:ana", newest.first_seq)))
    await surface.restore("user:ana", newest.last_seq)
    assert states(superuser) == {BEES: "active", BOAT: "active", PORTO: "active"}
    within = await memory.as_of(ANA, "user:ana", newest.first_seq)
    assert {one.content for one in within} == {BEES, BOAT}
    assert len(await administration.as_of("harbor", "user:ana", newest.first_seq)) == 2


NO_MOMENTS = [True, "2026-03-02T09:14:00Z", "1", datetime(2026, 3, 2, 9), 0.5, 1.0, -1, 2**63, None]  # noqa: DTZ001


@pytest.mark.parametrize("moment", NO_MOMENTS, ids=repr)
async def test_what_is_no_moment_is_told_what_one_is(
    memory: Mnemic, administration: Administration, moment: Any
) -> None:
    for act in (
        memory.restore(ANA, "user:ana", moment),
        memory.as_of(ANA, "user:ana", moment),
        administration.restore("harbor", "user:ana", moment),
        administration.as_of("harbor", "user:ana", moment),
    ):
        said = str(await _refused(act))
        assert said == "moment: a seq of the history, or a datetime with its zone"


@pytest.mark.parametrize("given", [(), ("no id",), (UNKNOWN, 5), ([UNKNOWN],)], ids=repr)
async def test_what_are_no_ids_is_told_by_the_arguments_name(
    memory: Mnemic, administration: Administration, given: Any
) -> None:
    for name, act in (
        ("op_ids", memory.undo(ANA, *given)),
        ("op_ids", administration.undo("harbor", *given)),
        ("memory_ids", memory.erase(ANA, *given)),
    ):
        assert str(await _refused(act)).startswith(f"{name}: ")


# -- a dry run


async def test_a_dry_run_that_meets_later_operations_tells_of_them_alone(
    memory: Mnemic, administration: Administration, db: Database, superuser: psycopg.Connection
) -> None:
    bees, _ = await saved(db, BEES, BOAT)
    await forgotten(db, bees)
    first, later = op_ids(superuser)
    for undo in (partial(memory.undo, ANA), partial(administration.undo, "harbor")):
        alone = await undo(first, dry_run=True)
        assert ([one.op_id for one in alone.later], alone.changes) == ([later], ())
        rest = await undo(first, cascade=True, dry_run=True)
        assert ([one.op_id for one in rest.later], len(rest.changes)) == ([later], 1)


@pytest.mark.parametrize("what", ["undo", "restore", "session"])
async def test_a_dry_run_writes_nothing_and_tells_what_the_real_one_does(
    surface: Surface, db: Database, superuser: psycopg.Connection, what: str
) -> None:
    began = datetime.now(UTC) - timedelta(minutes=1)
    bees, _ = await saved(db, BEES, PORTO)
    await forgotten(db, bees)

    async def act(**switches: bool) -> Rollback:
        if what == "undo":
            return await surface.undo(op_ids(superuser)[0], cascade=True, **switches)
        if what == "restore":
            return await surface.restore("user:ana", 2, **switches)
        return await surface.undo_session("s1", began, **switches)

    before = everything(superuser)
    planned = await act(dry_run=True)
    assert everything(superuser) == before
    done = await act()
    assert everything(superuser) != before
    assert done.op_id
    assert planned == replace(done, op_id=None)
    assert planned.changes


def _times(superuser: psycopg.Connection, op: uuid.UUID) -> tuple[datetime, datetime]:
    row = superuser.execute("select min(ts), max(ts) from mnemic.history where op_id = %s", (op,)).fetchone()
    assert row
    return row


async def _add(text: str, scoped: Scoped) -> None:
    """One statement of its own, and so with a time of its own."""
    await memories.insert(scoped, [new_memory(text)], model=MODEL, vectors={}, run_id=None)
