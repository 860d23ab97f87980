"""Rollbacks of more memories than a step takes: others write meanwhile, what broke off goes on, all of it is one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import Administration, Mnemic, Rollback
from mnemic.operations.run.resources import Resources
from mnemic.service.governance import rolling_back
from mnemic.state.errors import (
    DatabaseUnavailableError,
    MnemicError,
    RollbackConflictError,
    RollbackStoppedError,
    UnknownOperationError,
)
from mnemic.state.records import NewMemory
from mnemic.storage import time_machine
from mnemic.storage.database import Database
from tests.support.chain import assert_chain_is_whole
from tests.support.commands import invoke
from tests.support.loopback import LoopbackModel
from tests.support.mutating import mutate
from tests.support.rollbacks import ANA, again, everything, forgotten, op_ids, saved, states
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.surfaces import Surface
from tests.support.worlds import identity, remember

STEP, MANY = 35, 90
TEXTS = [f"Ana wrote letter {number}." for number in range(MANY)]
BO = identity("bo", session="s2")

pytestmark = pytest.mark.usefixtures("small_steps")


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_back, "STEP", STEP)


@pytest.fixture
def db(resources: Resources) -> Database:
    return resources.database


def before_step(
    monkeypatch: pytest.MonkeyPatch, number: int, happens: Callable[[Sequence[UUID]], Awaitable[object]]
) -> None:
    """Something happens just before a step is begun, once; it is told which memories the step changes."""
    take, steps = time_machine.take, iter(range(1, 1000))

    async def interrupted(scoped: Any, **asked: Any) -> bool:
        if next(steps) == number:
            await happens([row.memory_id for row in asked["step"].changes])
        return await take(scoped, **asked)

    monkeypatch.setattr(time_machine, "take", interrupted)


async def stop(_: Sequence[UUID]) -> None:
    """As where the process is told to end."""
    raise asyncio.CancelledError


async def lose(_: Sequence[UUID]) -> None:
    raise DatabaseUnavailableError


def counted(superuser: psycopg.Connection) -> Counter[str]:
    return Counter(states(superuser).values())


@pytest.mark.parametrize("way", ["undo", "restore"])
async def test_one_of_many_memories_is_one_operation_that_is_undone_as_one(
    surface: Surface, administration: Administration, db: Database, superuser: psycopg.Connection, way: str
) -> None:
    await saved(db, *TEXTS)
    (formed,) = op_ids(superuser)
    done = await (surface.undo(formed) if way == "undo" else surface.restore("user:ana", 0))
    assert (len(done.changes), counted(superuser)) == (MANY, {"soft_deleted": MANY})
    assert len(op_ids(superuser)) == 4

    newest, _ = await administration.operations("harbor")
    assert (newest.op_id, newest.left, newest.events) == (done.op_id, 0, {"DELETE": MANY})
    assert newest.undo_of == (formed if way == "undo" else None)
    assert done.op_id
    back = await surface.undo(done.op_id)
    assert (len(back.changes), counted(superuser)) == (MANY, {"active": MANY})
    assert len(await administration.operations("harbor")) == 3
    assert await administration.verify("harbor") == []
    assert_chain_is_whole(superuser, "harbor")


async def test_what_fits_one_step_is_one_operation(memory: Mnemic, db: Database, superuser: psycopg.Connection) -> None:
    await saved(db, *TEXTS[:STEP])
    await memory.undo(ANA, op_ids(superuser)[0])
    assert len(op_ids(superuser)) == 2
    ((meta,),) = superuser.execute("select distinct meta from mnemic.history where reason = 'undo'").fetchall()
    assert not {"rollback", "left"} & set(meta)


async def test_as_many_operations_as_a_long_session_has_are_undone_as_one(
    memory: Mnemic, db: Database, superuser: psycopg.Connection
) -> None:
    began = datetime.now(UTC)
    for text in TEXTS:
        await saved(db, text)
    done = await memory.undo_session(ANA, "s1", began)
    assert counted(superuser) == {"soft_deleted": MANY}
    ((longest,),) = superuser.execute("select max(length(meta::text)) from mnemic.history").fetchall()
    assert longest < 500  # in every row: as long as there are operations, it would grow with their square
    assert done.op_id
    await memory.undo(ANA, done.op_id)
    assert counted(superuser) == {"active": MANY}


async def test_others_write_between_the_steps(
    memory: Mnemic, db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await saved(db, *TEXTS)
    before_step(monkeypatch, 2, lambda _: saved(db, "Bo sails.", key="user:bo", who=BO))
    await memory.undo(ANA, op_ids(superuser)[0])
    assert counted(superuser) == {"soft_deleted": MANY, "active": 1}
    assert_chain_is_whole(superuser, "harbor")


@pytest.mark.parametrize("way", ["undo", "restore"])
async def test_the_same_call_goes_on_after_one_that_was_killed(
    memory: Mnemic,
    db: Database,
    clean_db: Clone,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    await saved(db, *TEXTS)
    (formed,) = op_ids(superuser)

    async def call(**switches: bool) -> Rollback:
        if way == "undo":
            return await memory.undo(ANA, formed, **switches)
        return await memory.restore(ANA, "user:ana", 0, **switches)

    with monkeypatch.context() as patched:
        before_step(patched, 2, stop)
        with pytest.raises(asyncio.CancelledError):
            await call()
    begun = (await memory.operations(ANA))[0]
    assert (begun.left, counted(superuser)) == (MANY - STEP, {"soft_deleted": STEP, "active": MANY - STEP})
    logged = await asyncio.to_thread(invoke, "audit", "log", "--agent", "harbor", "--user", "ana")
    assert {f"{MANY - STEP}", "left,"} <= {*logged.stdout.split()}  # in the lines of a column

    await saved(db, "Bo sails.", key="user:bo", who=BO)
    left = await call(dry_run=True)
    assert (len(left.changes), left.later) == (MANY - STEP, ())
    done = await call()
    assert (done.op_id, len(done.changes)) == (begun.op_id, MANY - STEP)
    assert counted(superuser) == {"soft_deleted": MANY, "active": 1}
    assert [one.left for one in await memory.operations(ANA)] == [0, 0]
    await memory.undo(ANA, begun.op_id)
    assert counted(superuser) == {"active": MANY + 1}
    assert_chain_is_whole(superuser, "harbor")


async def test_who_does_not_go_on_undoes_the_part_that_was_done(
    memory: Mnemic, db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await saved(db, *TEXTS)
    before_step(monkeypatch, 3, lose)
    with pytest.raises(RollbackStoppedError) as stopped:
        await memory.undo(ANA, op_ids(superuser)[0])
    assert (stopped.value.done, stopped.value.left) == (2 * STEP, MANY - 2 * STEP)
    assert isinstance(stopped.value.__cause__, DatabaseUnavailableError)
    assert counted(superuser) == {"soft_deleted": 2 * STEP, "active": MANY - 2 * STEP}
    await memory.undo(ANA, stopped.value.op_id)
    assert counted(superuser) == {"active": MANY}


async def test_another_call_is_no_continuation(
    memory: Mnemic,
    administration: Administration,
    db: Database,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a person began, an administrator does not finish in the person's name: to them it is a later operation."""
    await saved(db, *TEXTS)
    with monkeypatch.context() as patched:
        before_step(patched, 2, stop)
        with pytest.raises(asyncio.CancelledError):
            await memory.undo(ANA, op_ids(superuser)[0])
    begun = (await memory.operations(ANA))[0]
    with pytest.raises(RollbackConflictError) as refused:
        await administration.undo("harbor", op_ids(superuser)[0])
    assert [one.op_id for one in refused.value.rollback.later] == [begun.op_id]
    await administration.undo("harbor", op_ids(superuser)[0], cascade=True)
    assert counted(superuser) == {"soft_deleted": MANY}


# -- what stands against it


async def test_a_conflict_of_the_last_memory_is_found_before_the_first_is_written(
    memory: Mnemic, db: Database, superuser: psycopg.Connection
) -> None:
    new = await saved(db, *TEXTS)
    await forgotten(db, max(new, key=lambda one: one.id))
    before = everything(superuser)
    with pytest.raises(RollbackConflictError):
        await memory.undo(ANA, op_ids(superuser)[0])
    assert everything(superuser) == before


async def conflict_between_steps(
    memory: Mnemic, db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = {one.id: one for one in await saved(db, *TEXTS)}
    first, forgot = op_ids(superuser)[0], list[NewMemory]()

    async def forget(ids: Sequence[UUID]) -> None:
        forgot.append(new[ids[-1]])
        await forgotten(db, new[ids[-1]])

    with monkeypatch.context() as patched:
        before_step(patched, 3, forget)
        with pytest.raises(RollbackStoppedError) as stopped:
            await memory.undo(ANA, first)
    assert (stopped.value.done, stopped.value.left) == (2 * STEP, MANY - 2 * STEP)
    assert counted(superuser) == {"soft_deleted": 2 * STEP + 1, "active": MANY - 2 * STEP - 1}
    with pytest.raises(RollbackConflictError) as refused:
        await memory.undo(ANA, first)
    assert [one.op_id for one in refused.value.rollback.later] == op_ids(superuser)[-1:]
    done = await memory.undo(ANA, first, cascade=True)
    assert (done.op_id, counted(superuser)) == (stopped.value.op_id, {"soft_deleted": MANY})
    assert len(await memory.operations(ANA)) == 3
    await memory.undo(ANA, stopped.value.op_id)
    assert states(superuser)[forgot[0].content] == "soft_deleted"
    assert counted(superuser) == {"soft_deleted": 1, "active": MANY - 1}


async def test_a_memory_that_is_changed_between_the_steps_stops_it(
    memory: Mnemic, db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conflict_between_steps(memory, db, superuser, monkeypatch)


async def test_a_twin_that_is_stored_between_the_steps_stops_it(
    memory: Mnemic, db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = {one.id: one for one in await saved(db, *TEXTS)}
    undone = await memory.undo(ANA, op_ids(superuser)[0])
    assert undone.op_id
    twins = list[NewMemory]()

    async def say_again(ids: Sequence[UUID]) -> None:
        twins.append(again(new[ids[0]]))
        await remember(db, ANA, *twins)

    before_step(monkeypatch, 2, say_again)
    with pytest.raises(RollbackStoppedError):
        await memory.undo(ANA, undone.op_id)
    with pytest.raises(RollbackConflictError) as refused:
        await memory.undo(ANA, undone.op_id)
    assert [one.memory_id for one in refused.value.rollback.twins] == [twins[0].id]


async def test_what_changes_before_the_first_step_is_planned_anew(
    memory: Mnemic, db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = {one.id: one for one in await saved(db, *TEXTS)}
    before_step(monkeypatch, 1, lambda ids: forgotten(db, new[ids[0]]))
    with pytest.raises(RollbackConflictError) as refused:
        await memory.undo(ANA, op_ids(superuser)[0])
    assert len(refused.value.rollback.later) == 1
    assert counted(superuser) == {"soft_deleted": 1, "active": MANY - 1}


async def test_a_step_of_somebody_elses_rollback_is_an_unknown_operation(
    memory: Mnemic, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, *TEXTS)
    await memory.undo(ANA, op_ids(superuser)[0])
    for step in op_ids(superuser)[1:]:
        with pytest.raises(UnknownOperationError):
            await memory.undo(BO, step)


@pytest.mark.parametrize(
    ("function", "text", "wrong"),
    [
        ("take_step", "and m.version = t.version", ""),
        ("plan_undo_of", "array[resumed]", "array[null::uuid]"),
        ("whole_operations", "s.meta ->> 'rollback' =", "false and s.meta ->> 'rollback' ="),
    ],
)
async def test_each_rule_of_steps_is_needed(
    fresh_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, function: str, text: str, wrong: str
) -> None:
    with fresh_db.as_superuser() as superuser:
        async with scripted_memory(fresh_db, model) as memory:
            mutate(superuser, function, text, wrong)
            with pytest.raises((AssertionError, MnemicError, pytest.fail.Exception)):
                await conflict_between_steps(memory, memory._resources.database, superuser, monkeypatch)
