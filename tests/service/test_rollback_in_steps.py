"""Rollbacks of more memories than a step takes: others write meanwhile, what broke off goes on, all of it is one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic.memory.governance import rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.state.errors import (
    DatabaseUnavailableError,
    MnemicError,
    RollbackConflictError,
    RollbackStoppedError,
)
from mnemic.state.governance import Operation, Rollback
from mnemic.state.records import NewMemory, Supersession
from mnemic.storage import history, memories
from mnemic.storage.database import Database
from tests.support.audited import assert_chain_is_whole
from tests.support.mutating import mutate
from tests.support.rollbacks import ANA, again, forgotten, op_ids, restore, saved, states, undo
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, operate, remember

STEP, MANY = 35, 90
TEXTS = [f"Ana wrote letter {number}." for number in range(MANY)]
BO = identity("bo", session="s2")

pytestmark = pytest.mark.usefixtures("small_steps")


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "MAX_STEP_CHANGES", STEP)


@pytest.fixture
async def letters(db: Database) -> dict[UUID, NewMemory]:
    """Many memories of one operation."""
    return {item.id: item for item in await saved(db, *TEXTS)}


def before_step(
    monkeypatch: pytest.MonkeyPatch, number: int, happens: Callable[[Sequence[UUID]], Awaitable[object]]
) -> None:
    """Something happens just before a step is begun, once; it is told which memories the step changes."""
    take_step, steps = history.take_step, iter(range(1, 1000))

    async def interrupted(tx: Any, **given: Any) -> bool:
        if next(steps) == number:
            await happens([row.memory_id for row in given["step"]])
        return await take_step(tx, **given)

    monkeypatch.setattr(history, "take_step", interrupted)


async def stop(_: Sequence[UUID]) -> None:
    """As where the process is told to end."""
    raise asyncio.CancelledError


async def lose(_: Sequence[UUID]) -> None:
    raise DatabaseUnavailableError


async def stopped_at(monkeypatch: pytest.MonkeyPatch, step: int, act: Awaitable[Rollback]) -> None:
    with monkeypatch.context() as patched:
        before_step(patched, step, stop)
        with pytest.raises(asyncio.CancelledError):
            await act


def counted(superuser: psycopg.Connection) -> Counter[str]:
    return Counter(states(superuser).values())


async def operations(actor: Principal) -> list[Operation]:
    return await rollback.operations(actor, limit=1000)


# -- all of it is one


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("way", ["undo", "restore"])
async def test_one_of_many_memories_is_one_operation_that_is_undone_as_one(
    actor: Principal, superuser: psycopg.Connection, way: str
) -> None:
    (formed,) = op_ids(superuser)
    done = await (undo(actor, formed) if way == "undo" else restore(actor, "user:ana", 0))
    assert (len(done.changes), counted(superuser)) == (MANY, {"soft_deleted": MANY})
    assert len(op_ids(superuser)) == 4

    newest, _ = await operations(actor)
    assert (newest.id, newest.left, newest.events) == (done.op_id, 0, {"DELETE": MANY})
    assert newest.undo_of == (formed if way == "undo" else None)
    assert await rollback.operations(actor, since=newest.ts, limit=9) == [newest]  # a moment within it, told whole
    assert done.op_id
    back = await undo(actor, done.op_id)
    assert (len(back.changes), counted(superuser)) == (MANY, {"active": MANY})
    assert len(await operations(actor)) == 3
    assert_chain_is_whole(superuser, "harbor")


# -- what happens between the steps


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("way", ["undo", "restore"])
async def test_the_same_call_goes_on_after_one_that_was_killed(
    person: Principal, db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (formed,) = op_ids(superuser)

    async def call(**options: bool) -> Rollback:
        if way == "undo":
            return await undo(person, formed, **options)
        return await restore(person, "user:ana", 0, **options)

    await stopped_at(monkeypatch, 2, call())
    begun, _ = await operations(person)
    assert (begun.left, counted(superuser)) == (MANY - STEP, {"soft_deleted": STEP, "active": MANY - STEP})

    await saved(db, "Bo sails.", key="user:bo", who=BO)
    left = await call(dry_run=True)
    assert (len(left.changes), left.later) == (MANY - STEP, ())
    done = await call()
    assert (done.op_id, len(done.changes)) == (begun.id, MANY - STEP)
    assert counted(superuser) == {"soft_deleted": MANY, "active": 1}
    assert [item.left for item in await operations(person)] == [0, 0]
    await undo(person, begun.id)
    assert counted(superuser) == {"active": MANY + 1}
    assert_chain_is_whole(superuser, "harbor")


@pytest.mark.usefixtures("letters")
async def test_who_does_not_go_on_undoes_the_part_that_was_done(
    person: Principal, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_step(monkeypatch, 3, lose)
    with pytest.raises(RollbackStoppedError) as stopped:
        await undo(person, op_ids(superuser)[0])
    assert (stopped.value.done, stopped.value.left) == (2 * STEP, MANY - 2 * STEP)
    assert isinstance(stopped.value.__cause__, DatabaseUnavailableError)
    assert counted(superuser) == {"soft_deleted": 2 * STEP, "active": MANY - 2 * STEP}
    await undo(person, stopped.value.op_id)
    assert counted(superuser) == {"active": MANY}


@pytest.mark.usefixtures("letters")
async def test_another_call_is_no_continuation(
    person: Principal, administrator: Principal, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person began, an administrator does not finish in the person's name: to them it is a later operation."""
    (formed,) = op_ids(superuser)
    await stopped_at(monkeypatch, 2, undo(person, formed))
    begun, _ = await operations(person)
    with pytest.raises(RollbackConflictError) as refused:
        await undo(administrator, formed)
    assert [item.id for item in refused.value.rollback.later] == [begun.id]
    await undo(administrator, formed, cascade=True)
    assert counted(superuser) == {"soft_deleted": MANY}


@pytest.mark.parametrize("is_killed", [False, True])
async def test_redone_forget_in_steps_leaves_replaced_memories_superseded(
    person: Principal, db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr(rollback, "MAX_STEP_CHANGES", 1)
    old, new = await saved(db, *TEXTS[:3]), await saved(db, *TEXTS[3:6])
    changes = [Supersession(earlier.id, 1, later.id, MORNING) for earlier, later in zip(old, new, strict=True)]
    await operate(db, ANA, lambda tx: memories.supersede(tx, changes))
    await forgotten(db, *new)
    before = states(superuser)
    assert counted(superuser) == {"superseded": 3, "soft_deleted": 3}
    back = await undo(person, op_ids(superuser)[-1])
    assert back.op_id
    if is_killed:
        await stopped_at(monkeypatch, 3, undo(person, back.op_id))
    await undo(person, back.op_id)
    assert states(superuser) == before


async def test_a_memory_that_is_changed_between_the_steps_stops_it(
    db: Database, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, new = Principal.person(db, ANA), {item.id: item for item in await saved(db, *TEXTS)}
    first, forgot = op_ids(superuser)[0], list[NewMemory]()

    async def forget(ids: Sequence[UUID]) -> None:
        forgot.append(new[ids[-1]])
        await forgotten(db, new[ids[-1]])

    with monkeypatch.context() as patched:
        before_step(patched, 3, forget)
        with pytest.raises(RollbackStoppedError) as stopped:
            await undo(person, first)
    assert (stopped.value.done, stopped.value.left) == (2 * STEP, MANY - 2 * STEP)
    assert counted(superuser) == {"soft_deleted": 2 * STEP + 1, "active": MANY - 2 * STEP - 1}
    with pytest.raises(RollbackConflictError) as refused:
        await undo(person, first)
    assert [item.id for item in refused.value.rollback.later] == op_ids(superuser)[-1:]
    done = await undo(person, first, cascade=True)
    assert (done.op_id, counted(superuser)) == (stopped.value.op_id, {"soft_deleted": MANY})
    assert len(await operations(person)) == 3
    await undo(person, stopped.value.op_id)
    assert states(superuser)[forgot[0].content] == "soft_deleted"
    assert counted(superuser) == {"soft_deleted": 1, "active": MANY - 1}


async def test_a_twin_that_is_stored_between_the_steps_stops_it(
    person: Principal,
    db: Database,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    letters: dict[UUID, NewMemory],
) -> None:
    undone = await undo(person, op_ids(superuser)[0])
    assert undone.op_id
    twins = list[NewMemory]()

    async def say_again(ids: Sequence[UUID]) -> None:
        twins.append(again(letters[ids[0]]))
        await remember(db, ANA, *twins)

    before_step(monkeypatch, 2, say_again)
    with pytest.raises(RollbackStoppedError):
        await undo(person, undone.op_id)
    with pytest.raises(RollbackConflictError) as refused:
        await undo(person, undone.op_id)
    assert [item.id for item in refused.value.rollback.twins] == [twins[0].id]


async def test_what_changes_before_the_first_step_is_planned_anew(
    person: Principal,
    db: Database,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    letters: dict[UUID, NewMemory],
) -> None:
    before_step(monkeypatch, 1, lambda ids: forgotten(db, letters[ids[0]]))
    with pytest.raises(RollbackConflictError) as refused:
        await undo(person, op_ids(superuser)[0])
    assert len(refused.value.rollback.later) == 1
    assert counted(superuser) == {"soft_deleted": 1, "active": MANY - 1}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("function", "text", "wrong"),
    [
        ("roll_back", "and m.version = t.version", ""),
        ("plan_rollback", "array[resumed]", "array[null::uuid]"),
        ("complete_operations", "s.meta ->> 'rollback' =", "false and s.meta ->> 'rollback' ="),
    ],
)
async def test_each_rule_of_steps_is_needed(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch, function: str, text: str, wrong: str
) -> None:
    with fresh_db.as_superuser() as superuser:
        mutate(superuser, function, text, wrong)
        async with fresh_db.database() as db:
            with pytest.raises((AssertionError, MnemicError, pytest.fail.Exception)):
                await test_a_memory_that_is_changed_between_the_steps_stops_it(db, superuser, monkeypatch)
