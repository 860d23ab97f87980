"""Rollback at the operation, in full: as the person concerned, and as an administrator."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest

from mnemic.memory.governance import retention, rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import ContentErasedError, InvalidInputError, RollbackRefusedError, UnknownOperationError
from mnemic.state.governance import Rollback, RollbackOptions
from mnemic.state.identity import Identity
from mnemic.storage import memories
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.audited import assert_chain_is_whole
from tests.support.refinements import set_protected
from tests.support.rollbacks import (
    ANA,
    again,
    everything,
    forgotten,
    op_ids,
    restore,
    saved,
    states,
    undo,
)
from tests.support.server import Clone
from tests.support.worlds import MODEL, identity, operate, remember
from tests.support.worlds import memory as new_memory

BO = identity("bo", session="s2")
BEES, PORTO, BOAT = "Ana keeps bees.", "Ana lives in Porto.", "Ana has a boat."
UNKNOWN = uuid.UUID(int=1)
OWN = ANA.model_copy(update={"role": "owner"})
#: The database's own check of a person's keys switched off.
EVERY_KEY = "create or replace function mnemic.permitted_keys(p_keys text[]) returns text[] language sql return p_keys"


async def refused(actor: Principal, *ops: uuid.UUID, **options: bool) -> Rollback:
    """What an undo met that was refused."""
    with pytest.raises(RollbackRefusedError) as caught:
        await undo(actor, *ops, **options)
    assert caught.value.rollback.op_id is None
    return caught.value.rollback


# -- which operations


@pytest.mark.parametrize(
    ("chosen", "bees", "porto", "boat"),
    [
        ([1], "soft_deleted", "active", "soft_deleted"),  # the one that stored the boat
        ([2], "active", "active", "active"),  # the newest, which forgot the bees
        ([1, 2], "active", "active", "soft_deleted"),
        ([0, 2], "soft_deleted", "soft_deleted", "active"),  # bees were stored and forgotten by them: as they are
        ([0, 1, 2], "soft_deleted", "soft_deleted", "soft_deleted"),
    ],
)
async def test_operations_are_undone_as_one_and_that_is_undone_in_turn(
    actor: Principal,
    db: Database,
    superuser: psycopg.Connection,
    chosen: Sequence[int],
    bees: str,
    porto: str,
    boat: str,
) -> None:
    kept, _ = await saved(db, BEES, PORTO)
    await saved(db, BOAT)
    await forgotten(db, kept)
    ops, before = op_ids(superuser), states(superuser)
    done = await undo(actor, *(ops[place] for place in chosen))

    assert states(superuser) == {BEES: bees, PORTO: porto, BOAT: boat}
    assert len(done.changes) == sum(before[text] != state for text, state in states(superuser).items())
    assert op_ids(superuser) == [*ops, done.op_id]
    assert done.op_id
    redone = await undo(actor, done.op_id)
    assert states(superuser) == before
    assert redone.op_id
    await undo(actor, redone.op_id)
    assert states(superuser) == {BEES: bees, PORTO: porto, BOAT: boat}
    assert_chain_is_whole(superuser, "harbor")


# -- what stands against it


async def test_a_later_operation_is_a_conflict_until_a_cascade_undoes_it_too(
    actor: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    bees, porto = await saved(db, BEES, PORTO)
    await forgotten(db, bees, porto)
    await saved(db, BOAT)
    first, later, _ = op_ids(superuser)
    before = everything(superuser)

    assert [item.id for item in (await refused(actor, first)).later] == [later]
    dry = await undo(actor, first, dry_run=True)
    assert ([item.id for item in dry.later], dry.changes) == ([later], ())  # the later ones alone
    assert everything(superuser) == before

    brought_back = await undo(actor, later)
    done = await undo(actor, first, cascade=True)
    assert {item.id for item in done.later} == {later, brought_back.op_id}
    assert states(superuser) == {BEES: "soft_deleted", PORTO: "soft_deleted", BOAT: "active"}
    assert done.op_id
    await undo(actor, done.op_id)
    assert states(superuser) == {BEES: "active", PORTO: "active", BOAT: "active"}


@pytest.mark.parametrize("twin_lives", [True, False])
async def test_two_equal_restored_memories_conflict_and_a_cascade_does_not_help(
    actor: Principal, db: Database, superuser: psycopg.Connection, twin_lives: bool
) -> None:
    """One of them lives, or both would come back."""
    (bees,) = await saved(db, BEES)
    await forgotten(db, bees)
    twin = again(bees)
    await remember(db, ANA, twin)
    if not twin_lives:
        await forgotten(db, twin)
    ops, before = op_ids(superuser), everything(superuser)
    met = await refused(actor, *ops[1::2], cascade=True)

    assert {item.id for item in met.twins} == ({twin.id} if twin_lives else {bees.id, twin.id})
    assert everything(superuser) == before


async def test_a_protected_memory_is_rolled_back_by_an_administrator_alone(
    actor: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    (bees,) = await saved(db, BEES)
    set_protected(superuser, bees)
    before, first = everything(superuser), op_ids(superuser)[0]
    if actor.keys is None:
        assert (await undo(actor, first, cascade=True)).changes
        assert states(superuser) == {BEES: "soft_deleted"}
    else:
        assert [item.id for item in (await refused(actor, first, cascade=True)).protected] == [bees.id]
        assert everything(superuser) == before


async def test_what_was_erased_stops_it_unless_it_is_skipped(
    actor: Principal, person: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    bees, porto = await saved(db, BEES, PORTO)
    await forgotten(db, bees, porto)
    await retention.erase(person, [bees.id], dry_run=False, progress=None)
    later = op_ids(superuser)[1]
    with pytest.raises(ContentErasedError) as caught:
        await undo(actor, later)
    assert [item.id for item in caught.value.rollback.erased] == [bees.id]

    done = await undo(actor, later, skip_erased=True)
    assert [item.id for item in done.changes] == [porto.id]
    assert states(superuser) == {"": "purged", PORTO: "active"}


@pytest.mark.parametrize("what", ["undo", "restore", "session"])
async def test_a_dry_run_writes_nothing_and_tells_what_the_real_one_does(
    actor: Principal, db: Database, superuser: psycopg.Connection, what: str
) -> None:
    began = datetime.now(UTC) - timedelta(minutes=1)
    bees, _ = await saved(db, BEES, PORTO)
    await forgotten(db, bees)
    before, first = everything(superuser), op_ids(superuser)[0]

    async def act(**options: bool) -> Rollback:
        if what == "undo":
            return await undo(actor, first, cascade=True, **options)
        if what == "restore":
            return await restore(actor, "user:ana", 2, **options)
        return await rollback.undo(actor, None, RollbackOptions(**options), session_id="s1", since=began)

    planned = await act(dry_run=True)
    assert everything(superuser) == before
    done = await act()
    assert done.op_id == op_ids(superuser)[-1]
    assert planned == replace(done, op_id=None)
    assert planned.changes


# -- whose operation


async def test_unknown_operations_and_those_of_others_are_refused_alike(
    actor: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, BEES)
    await saved(db, "Bo sails.", key="user:bo", who=BO)
    await saved(db, "Ana paints.", who=identity("ana", agent="museum", session="s1"))
    own, of_bo = op_ids(superuser)
    foreign = op_ids(superuser, "museum")[0]
    before, messages = everything(superuser), set[str]()
    for ops in ([UNKNOWN], [own, UNKNOWN], [foreign], *([] if actor.keys is None else [[of_bo]])):
        for options in ({}, {"cascade": True, "skip_erased": True}, {"dry_run": True}):
            with pytest.raises(UnknownOperationError) as caught:
                await undo(actor, *ops, **options)
            messages.add(str(caught.value))
    assert len(messages) == 1
    assert everything(superuser) == before
    if actor.keys is None:
        assert (await undo(actor, of_bo)).changes  # the control


async def test_of_an_operation_on_shared_keys_too_a_person_undoes_their_own_part(
    actor: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    texts = {"user:ana": BEES, "group:crew": BOAT, "agent:harbor": PORTO, "user:bo": "Bo sails."}
    await remember(db, ANA, *(new_memory(text, key=key) for key, text in texts.items()), also=["user:bo"])
    (op,) = op_ids(superuser)
    done = await undo(actor, op)

    expected = dict.fromkeys(texts.values(), "soft_deleted" if actor.keys is None else "active")
    assert states(superuser) == {**expected, BEES: "soft_deleted"}
    assert len(done.changes) == (4 if actor.keys is None else 1)
    assert done.op_id
    await undo(actor, done.op_id)
    assert set(states(superuser).values()) == {"active"}


@pytest.mark.parametrize("fallen", ["the service's", "the database's", "both"])
async def test_whose_memories_are_a_persons_own_is_held_twice(fresh_db: Clone, fallen: str) -> None:
    """Each of the two walls alone keeps Bo's memory; with both gone the same undo reaches it."""
    async with fresh_db.database() as db:
        keys = ("user:ana", "session:s1") if fallen == "the database's" else (*ANA.scope_keys, "user:bo")
        with fresh_db.as_superuser() as superuser:
            if fallen != "the service's":
                superuser.execute(EVERY_KEY)
            await saved(db, "Bo sails.", key="user:bo", who=BO)
            (of_bo,) = op_ids(superuser)
            if fallen == "both":
                assert (await undo(Principal(db, ANA, keys), of_bo)).changes
            else:
                with pytest.raises(UnknownOperationError):
                    await undo(Principal(db, ANA, keys), of_bo)


@pytest.mark.parametrize("role", ["owner", "supervisor", "administrator", "mnemic_admin"])
async def test_neither_a_role_nor_an_actor_gives_power(db: Database, superuser: psycopg.Connection, role: str) -> None:
    (bees,) = await saved(db, BEES)
    await saved(db, BOAT, key="group:crew")
    set_protected(superuser, bees)
    first, shared, _ = op_ids(superuser)
    mighty = Principal.person(db, ANA.model_copy(update={"role": role, "actor_id": "administrator"}))
    assert (await refused(mighty, first, cascade=True)).protected
    with pytest.raises(UnknownOperationError):
        await undo(mighty, shared)
    for key in ("group:crew", "agent:harbor", "user:bo", "session:s2"):
        with pytest.raises(InvalidInputError):
            await restore(mighty, key, 0)
    assert states(superuser) == {BEES: "active", BOAT: "active"}


@pytest.mark.parametrize("who", [identity(None), identity(None, groups=["crew"])])
def test_nobody_has_nothing_of_their_own(who: Identity) -> None:
    with pytest.raises(InvalidInputError, match=r"^user_id: "):
        Principal.person(None, who)  # type: ignore[arg-type]  # it comes to no database


# -- a moment


async def test_a_scope_key_gets_back_what_it_had(actor: Principal, db: Database, superuser: psycopg.Connection) -> None:
    (bees,) = await saved(db, BEES)
    await saved(db, BOAT, key="group:crew")
    await forgotten(db, bees)
    await saved(db, PORTO)
    done = await restore(actor, "user:ana", 2)

    assert states(superuser) == {BEES: "active", BOAT: "active", PORTO: "soft_deleted"}
    assert {(item.before, item.after) for item in done.changes} == {
        ("soft_deleted", "active"),
        ("active", "soft_deleted"),
    }
    assert done.op_id
    await undo(actor, done.op_id)
    assert states(superuser) == {BEES: "soft_deleted", BOAT: "active", PORTO: "active"}
    (newest,) = await rollback.operations(actor, limit=1)
    assert (await restore(actor, "user:ana", newest.last_revision)).op_id is None  # nothing to change


async def test_an_operation_is_restored_whole_or_not_at_all(
    actor: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    await saved(db, BEES)
    await operate(db, ANA, partial(_add, BOAT), partial(_add, PORTO))
    newest, _ = await rollback.operations(actor, limit=100)
    assert newest.last_revision - newest.first_revision == 1
    begun = superuser.execute("select min(ts) from mnemic.history where op_id = %s", (newest.id,)).fetchone()
    assert begun
    assert begun[0] < newest.ts

    before_it = {BEES: "active", BOAT: "soft_deleted", PORTO: "soft_deleted"}
    after_it = dict.fromkeys(before_it, "active")
    for moment, expected in (
        (newest.first_revision - 1, before_it),
        (newest.last_revision, after_it),
        (begun[0], before_it),
        (newest.ts, after_it),
    ):
        await restore(actor, "user:ana", moment)
        assert states(superuser) == expected
    for moment in (newest.first_revision, 10_000):  # within it, and beyond the head
        with pytest.raises(InvalidInputError):
            await restore(actor, "user:ana", moment)
    assert states(superuser) == after_it


async def test_a_past_moment_is_read_in_words_or_blind(
    person: Principal, administrator: Principal, db: Database, resources: Resources, superuser: psycopg.Connection
) -> None:
    bees, porto = await saved(db, BEES, PORTO)
    await forgotten(db, bees)
    await saved(db, BOAT)
    newest = (await rollback.operations(person, limit=1))[0]
    past: dict[int | datetime, dict[str, str]] = {
        0: {},
        2: {BEES: "active", PORTO: "active"},
        3: {BEES: "soft_deleted", PORTO: "active"},
        newest.ts: {BEES: "soft_deleted", PORTO: "active", BOAT: "active"},
    }
    assert len(await rollback.as_of(resources, OWN, "user:ana", 1, with_closed=False)) == 1  # within an operation
    for moment, expected in past.items():
        for closed in (False, True):
            seen = {text: state for text, state in expected.items() if closed or state == "active"}
            own = await rollback.as_of(resources, OWN, "user:ana", moment, with_closed=closed)
            blind = await rollback.metadata_as_of(administrator, "user:ana", moment, with_closed=closed)
            assert {item.content: item.state for item in own} == seen
            assert {(item.id, item.state) for item in blind} == {(item.id, item.state) for item in own}
    await retention.erase(person, [bees.id], dry_run=False, progress=None)
    own = await rollback.as_of(resources, OWN, "user:ana", 2, with_closed=False)
    assert {(item.id, item.content, item.state) for item in own} == {
        (bees.id, "", "purged"),
        (porto.id, PORTO, "active"),
    }
    await operate(db, ANA, lambda tx: tx.execute("update memories set importance = 5 where content <> ''", {}))
    weights = [
        await rollback.metadata_as_of(administrator, "user:ana", revision, with_closed=False) for revision in (4, 7)
    ]
    assert [{item.importance for item in then} - {0} for then in weights] == [{2}, {5}]


async def test_past_is_read_under_the_role_allowlist_and_own_scope_keys(resources: Resources, db: Database) -> None:
    procedure = replace(new_memory("1. Ring the bell."), category="procedural")
    await remember(db, ANA, new_memory(BEES), procedure, new_memory(PORTO, kind="core"))
    await saved(db, BOAT, key="group:crew")
    for role, seen in (
        ("owner", {BEES, PORTO, procedure.content}),
        ("supervisor", {BEES, PORTO}),
        ("planner", {procedure.content}),
    ):
        who = ANA.model_copy(update={"role": role})
        found = await rollback.as_of(resources, who, "user:ana", 4, with_closed=False)
        assert {item.content for item in found} == seen
    assert [item.content for item in await rollback.as_of(resources, OWN, "group:crew", 4, with_closed=False)] == [BOAT]
    for key in ("user:bo", "group:club", "session:s2", "agent:museum"):
        with pytest.raises(InvalidInputError):
            await rollback.as_of(resources, OWN, key, 1, with_closed=False)


async def _add(text: str, tx: ScopedTransaction) -> None:
    """One statement of its own, and so with a time of its own."""
    await memories.insert(tx, [new_memory(text)], model=MODEL, vectors={}, run_id=None)
