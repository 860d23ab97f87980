"""Operations undone, scope keys restored, past states read: as the service's own role and as the administrators'."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

import psycopg
import pytest

from mnemic.service.governance.administration import Administration
from mnemic.state.errors import InvalidInputError, RollbackConflictError, UnknownOperationError
from mnemic.state.identity import Identity
from mnemic.state.records import IndexedText, Memory, Message, NewMemory, Relation, Supersession
from mnemic.state.rollback import Rollback
from mnemic.storage import erasure, inbox, memories, time_machine
from mnemic.storage.database import Database, Scoped
from tests.support import in_one
from tests.support.erasing import form
from tests.support.fixtures import administration
from tests.support.mutating import mutate
from tests.support.server import Clone
from tests.support.stored_refinements import in_a_session
from tests.support.worlds import AGENT, MODEL, MORNING, identity, memory, message, operate, remember

__all__ = ["administration"]

ME = identity(session="s1")
BO = identity("bo", session="s1")
MINE = ["user:ana", "session:s1"]
OURS = f"agent:{AGENT}"


async def undo(db: Database, *ops: UUID, cascade: bool = False, skip_erased: bool = False) -> Rollback:
    async with db.scoped(ME) as scoped:
        return await in_one.undo(scoped, MINE, ops, cascade=cascade, skip_erased=skip_erased, apply=True)


async def restore(db: Database, seq: int, *, skip_erased: bool = False, apply: bool = True) -> Rollback:
    async with db.scoped(ME) as scoped:
        return await in_one.restore(scoped, "user:ana", seq, administers=False, skip_erased=skip_erased, apply=apply)


async def ops(db: Database) -> list[UUID]:
    """Those that changed memories, oldest first."""
    async with db.scoped(ME) as scoped:
        found = await time_machine.operations(scoped, MINE, session_id=None, since=None, most=100)
    return [operation.op_id for operation in reversed(found) if {*operation.events} != {"SESSION"}]


async def contents(db: Database) -> list[str]:
    async with db.scoped(ME) as scoped:
        return sorted(m.content for m in await memories.living(scoped, ["fact"], most=100))


async def read(db: Database, new: NewMemory) -> Memory:
    async with db.scoped(ME) as scoped:
        found = await memories.one(scoped, new.id)
    assert found
    return found


async def forget(db: Database, new: NewMemory, who: Identity = ME) -> None:
    async with db.scoped(who) as scoped:
        old = await memories.one(scoped, new.id)
        assert old
        await scoped.begin_operation("forget")
        await memories.forget(scoped, old)


async def reword(db: Database, new: NewMemory, content: str) -> None:
    old = await read(db, new)
    await operate(
        db, ME, in_a_session(new.scope_key, lambda scoped: memories.rewrite_consolidation(scoped, old, content))
    )


async def supersede(db: Database, new: NewMemory, by: NewMemory) -> None:
    change = Supersession(old_id=new.id, old_version=(await read(db, new)).version, new_id=by.id)
    await operate(db, ME, lambda scoped: memories.supersede(scoped, [(change, MORNING)]))


async def say(db: Database, said: Message) -> None:
    """A message that was formed and kept."""
    texts = [IndexedText(item_id=said.id, piece=0, text=said.content)]
    await operate(
        db,
        ME,
        lambda scoped: inbox.observe(scoped, "s1", [said]),
        lambda scoped: inbox.index_messages(scoped, MODEL, texts),
    )


async def is_searched(db: Database, said: Message, who: Identity = ME) -> bool:
    async with db.scoped(who) as scoped:
        rows = await scoped.tuples("select distinct living from entries where item_id = %(id)s", {"id": said.id})
    ((living,),) = rows
    return bool(living)


async def states(db: Database, *new: NewMemory) -> list[str]:
    return [(await read(db, one)).state for one in new]


def adding(*new: NewMemory) -> Callable[[Scoped], Awaitable[object]]:
    return lambda scoped: memories.insert(scoped, new, model=MODEL, vectors={}, run_id=None)


async def test_an_undone_save_is_gone_and_its_undoing_brings_it_back(db: Database) -> None:
    await remember(db, ME, memory("Ana keeps bees."), memory("Ana lives in Porto."))
    (saved,) = await ops(db)
    undone = await undo(db, saved)
    assert len(undone.changes) == 2
    assert await contents(db) == []
    assert undone.op_id
    await undo(db, undone.op_id)
    assert await contents(db) == ["Ana keeps bees.", "Ana lives in Porto."]


async def test_later_changes_are_a_conflict_that_cascade_undoes(db: Database) -> None:
    bees = memory("Ana keeps bees.")
    await remember(db, ME, bees)
    await forget(db, bees)
    saved, forgotten = await ops(db)
    with pytest.raises(RollbackConflictError) as refused:
        await undo(db, saved)
    assert [later.op_id for later in refused.value.rollback.later] == [forgotten]
    await undo(db, forgotten)
    assert await contents(db) == ["Ana keeps bees."]
    with pytest.raises(UnknownOperationError):
        await undo(db, UUID(int=1))


async def test_an_undone_consolidation_gives_back_what_it_took_in(db: Database) -> None:
    short, quiet = (memory(text, kind="reflection") for text in ("Ana is brief.", "Ana is quiet."))
    whole = memory("Ana is brief and quiet.", kind="consolidation")
    await remember(db, ME, short, quiet)
    await operate(db, ME, adding(whole), lambda scoped: memories.absorb(scoped, whole.id, [short.id, quiet.id]))
    assert await states(db, short, quiet, whole) == ["absorbed", "absorbed", "active"]
    await undo(db, (await ops(db))[-1])
    assert await states(db, short, quiet, whole) == ["active", "active", "soft_deleted"]
    async with db.scoped(ME) as scoped:
        assert await memories.unabsorbed_counts(scoped) == {"user:ana": 2}
        rows = await scoped.tuples("select absorbed_at, consolidated_into from memories where kind = 'reflection'", {})
    assert rows == [(None, None)] * 2


async def test_an_undo_that_meets_a_living_twin_names_it_and_changes_nothing(db: Database) -> None:
    first, second = memory("Ana keeps bees."), memory("Ana keeps bees.")
    await remember(db, ME, first)
    await forget(db, first)
    await remember(db, ME, second)
    _, forgotten, _ = await ops(db)
    with pytest.raises(RollbackConflictError) as refused:
        await undo(db, forgotten, cascade=True)
    assert [twin.memory_id for twin in refused.value.rollback.twins] == [second.id]
    assert await states(db, first, second) == ["soft_deleted", "active"]


async def test_a_restore_gives_two_memories_back_what_each_of_them_said(db: Database) -> None:
    bees, boats = memory("Ana keeps bees."), memory("Ana sails.")
    await remember(db, ME, bees, boats)
    for each, content in [(bees, "Nothing."), (boats, bees.content), (bees, boats.content)]:
        await reword(db, each, content)
    assert [(await read(db, each)).content for each in (bees, boats)] == ["Ana sails.", "Ana keeps bees."]
    await restore(db, 2)
    assert [(await read(db, each)).content for each in (bees, boats)] == ["Ana keeps bees.", "Ana sails."]
    assert await states(db, bees, boats) == ["active", "active"]


async def test_relations_go_with_what_was_stored_and_come_back_with_it(
    db: Database, superuser: psycopg.Connection
) -> None:
    bees = memory("Ana keeps bees.")
    honey = replace(memory("Ana sells honey."), relations=(Relation(to_id=bees.id, strength=0.5),))
    await remember(db, ME, bees)
    await remember(db, ME, honey)

    def relations() -> list[tuple[object, ...]]:
        return superuser.execute("select * from mnemic.relations").fetchall()

    before = relations()
    undone = await undo(db, (await ops(db))[-1])
    assert (len(before), relations()) == (1, [])
    assert undone.op_id
    await undo(db, undone.op_id)
    assert relations() == before


async def test_what_was_said_leaves_search_with_the_last_memory_that_rests_on_it(db: Database) -> None:
    said = message("I keep bees and sail.")
    await say(db, said)
    await remember(db, ME, memory("Ana keeps bees.", sources=[said]))
    await remember(db, ME, memory("Ana sails.", sources=[said]))
    first, second = await ops(db)
    undone = []
    for op_id, searched in [(first, True), (second, False)]:
        undone.append((await undo(db, op_id)).op_id)
        assert await is_searched(db, said) is searched
    assert undone[0]
    await undo(db, undone[0])
    assert await is_searched(db, said)


async def test_what_was_said_comes_back_with_a_superseded_memory_that_returns(db: Database) -> None:
    said = message("I keep bees and sail.")
    bees, boats = memory("Ana keeps bees.", sources=[said]), memory("Ana sails.", sources=[said])
    wasps = memory("Ana keeps wasps.")
    await say(db, said)
    await remember(db, ME, bees, boats, wasps)
    await supersede(db, bees, by=wasps)
    await forget(db, boats)
    assert not await is_searched(db, said)
    await undo(db, (await ops(db))[1])
    assert await states(db, bees, boats) == ["active", "soft_deleted"]
    assert await is_searched(db, said)


async def test_several_operations_are_undone_as_one(db: Database) -> None:
    bees = memory("Ana keeps bees.")
    await remember(db, ME, bees)
    await remember(db, ME, memory("Ana sails."))
    await reword(db, bees, "Ana keeps wasps.")
    every = await ops(db)
    undone = await undo(db, *every)
    assert (await contents(db), undone.later) == ([], ())
    assert await ops(db) == [*every, undone.op_id]
    assert undone.op_id
    await undo(db, undone.op_id)
    assert await contents(db) == ["Ana keeps wasps.", "Ana sails."]


async def test_a_person_undoes_their_own_part_of_an_operation(db: Database, administration: Administration) -> None:
    own, shared = memory("Ana keeps bees."), memory("The ferry leaves at nine.", key=OURS)
    foreign = memory("Bo sails.", key="user:bo")
    await remember(db, ME, own, shared, foreign, also=["user:bo"])
    (saved,) = await ops(db)
    undone = await undo(db, saved)
    assert [change.memory_id for change in undone.changes] == [own.id]
    left = {one.id: one.state for key in (OURS, "user:bo") for one in await administration.as_of(AGENT, key, 4)}
    assert left == {shared.id: "active", foreign.id: "active"}
    async with db.scoped(identity("bo")) as scoped:
        bos = await in_one.undo(scoped, ["user:bo"], [saved], cascade=False, skip_erased=False, apply=False)
    assert [change.memory_id for change in bos.changes] == [foreign.id]


async def test_a_past_state_is_read_back_and_what_was_erased_since_is_a_bare_row(db: Database) -> None:
    bees, boats = memory("Ana keeps bees."), memory("Ana sails.")
    await remember(db, ME, bees, boats)
    await reword(db, bees, "Ana keeps wasps.")
    await erasure.erase(db, ME, ["user:ana"], [boats.id])
    async with db.scoped(ME) as scoped:
        then = await time_machine.as_of(scoped, "user:ana", 2, with_closed=False)
        now = await time_machine.as_of(scoped, "user:ana", 4, with_closed=False)
    assert {one.id: (one.state, one.content) for one in then} == {
        bees.id: ("active", "Ana keeps bees."),
        boats.id: ("purged", ""),
    }
    assert (await read(db, bees)) in now


async def consolidated_and_erased(db: Database) -> tuple[NewMemory, NewMemory]:
    """A reflection, and the consolidation that took it in (seq 2 and 3) and was erased (seq 4 and 5)."""
    short, whole = memory("Ana is brief.", kind="reflection"), memory("Ana says little.", kind="consolidation")
    await remember(db, ME, short)
    await operate(db, ME, adding(whole), lambda scoped: memories.absorb(scoped, whole.id, [short.id]))
    assert (await erasure.erase(db, ME, MINE, [whole.id])).erased == (whole.id,)
    assert await states(db, short, whole) == ["active", "purged"]
    return short, whole


@pytest.mark.parametrize("by", ["restore", "undo"])
async def test_what_an_erased_consolidation_had_taken_in_never_goes_back_into_it(db: Database, by: str) -> None:
    short, whole = await consolidated_and_erased(db)
    if by == "restore":
        rollback = await restore(db, 3, skip_erased=True)
    else:
        rollback = await undo(db, (await ops(db))[-1], skip_erased=True)
    assert [one.memory_id for one in rollback.erased] == [whole.id]
    assert rollback.changes == ()
    assert await states(db, short, whole) == ["active", "purged"]


@pytest.mark.parametrize("by", ["undo", "forget"])
async def test_what_somebody_else_said_stays_in_their_search(
    db: Database, administration: Administration, by: str
) -> None:
    said, mine = message("The harbor closes at ten.", user="bo"), memory("Bo told of the harbor.")
    mine = replace(mine, source_message_ids=(said.id,))
    formation = await form(db, ME, [said], mine, also=["user:bo"])
    await (undo(db, formation) if by == "undo" else forget(db, mine))
    assert await states(db, mine) == ["soft_deleted"]
    assert await is_searched(db, said, BO)
    await undo(db, (await ops(db))[-1])
    await administration.undo(AGENT, formation, cascade=True)  # whose work it is to take back the whole of it
    assert await states(db, mine) == ["soft_deleted"]
    assert not await is_searched(db, said, BO)


async def test_what_somebody_else_had_forgotten_does_not_come_back_to_their_search(db: Database) -> None:
    said = message("Bo keeps a secret.", user="bo")
    mine, his = (memory("Bo told a secret.", key=key, sources=[said]) for key in ("user:ana", "user:bo"))
    await form(db, ME, [said], mine, his, also=["user:bo"])
    await forget(db, mine)
    forgotten = (await ops(db))[-1]
    await forget(db, his, BO)
    assert not await is_searched(db, said, BO)
    await undo(db, forgotten)
    assert await states(db, mine) == ["active"]
    assert not await is_searched(db, said, BO)


_OWN = "(p_keys is null or e.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[]))"


@pytest.mark.parametrize("rule", ["stays free", "stays searched", "stays hidden"])
async def test_each_rule_about_what_a_rollback_leaves_alone_is_needed(fresh_db: Clone, rule: str) -> None:
    function, text, wrong = {
        "stays free": ("final_row", "c.state = 'purged'::text", "false"),
        "stays searched": ("take_step", f"{_OWN}\n       and not is_rested_on", "true and not is_rested_on"),
        "stays hidden": ("take_step", f"{_OWN};", "true;"),
    }[rule]
    with fresh_db.as_superuser() as superuser:
        mutate(superuser, function, text, wrong)
    async with fresh_db.database() as db, Administration.open(admin_url=fresh_db.administrator_dsn) as administrator:
        broken = {
            "stays free": lambda: test_what_an_erased_consolidation_had_taken_in_never_goes_back_into_it(db, "restore"),
            "stays searched": lambda: test_what_somebody_else_said_stays_in_their_search(db, administrator, "undo"),
            "stays hidden": lambda: test_what_somebody_else_had_forgotten_does_not_come_back_to_their_search(db),
        }
        with pytest.raises(AssertionError):
            await broken[rule]()


async def test_an_operation_is_restored_whole_or_not_at_all_but_looked_at_in_part(
    db: Database, administration: Administration
) -> None:
    await remember(db, ME, memory("Ana keeps bees."), memory("Ana sails."))
    await remember(db, ME, memory("Ana sings."), memory("The ferry leaves at nine.", key=OURS))
    for apply in (False, True):
        with pytest.raises(InvalidInputError, match="1 lies within an operation"):
            await restore(db, 1, apply=apply)
    with pytest.raises(InvalidInputError, match="1 lies within an operation"):
        await administration.restore(AGENT, "user:ana", 1)
    async with db.scoped(ME) as scoped:
        past = [await time_machine.as_of(scoped, "user:ana", seq, with_closed=False) for seq in range(5)]
    assert [len(then) for then in past][:3] == [0, 1, 2]
    for seq in (3, 2, 0):  # of the second operation only one row is of this scope key, and so it lies before or after
        rollback = await restore(db, seq, apply=False)
        assert len(rollback.changes) == len(past[4]) - len(past[seq])
    assert len(past[4]) == 3


async def test_without_the_look_at_where_operations_end_one_would_be_restored_in_part(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {**time_machine._SQL, "divided": "select false"}
    monkeypatch.setattr(time_machine, "_SQL", MappingProxyType(wrong))
    await remember(db, ME, memory("Ana keeps bees."), memory("Ana sails."))
    assert len((await restore(db, 1)).changes) == 1


async def test_a_past_state_without_contents_shows_the_importance_of_then(
    db: Database, administration: Administration
) -> None:
    await remember(db, ME, memory("Ana keeps bees."))
    await operate(db, ME, lambda scoped: scoped.execute("update memories set importance = 5", {}))
    assert [one.importance for seq in (1, 2) for one in await administration.as_of(AGENT, "user:ana", seq)] == [2, 5]


#: Columns that never change, and those that the database sets by itself at each change.
IDENTITY = {"agent_id", "id", "kind", "scope_key", "category", "subject_user_id", "created_at"}
AUTOMATIC = {"content_hash", "tokens", "version", "updated_at"}


def test_every_column_of_a_memory_is_rolled_back_or_never_changes(superuser: psycopg.Connection) -> None:
    columns = {
        name
        for (name,) in superuser.execute(
            "select attname from pg_attribute where attrelid = 'mnemic.memories'::regclass and attnum > 0"
            " and not attisdropped"
        )
    }
    found = superuser.execute("select pg_get_functiondef('mnemic.write_finals'::regproc)").fetchone()
    assert found
    written = set(re.findall(r"(\w+) = f\.\1\b", found[0])) - {"id"}
    assert written | IDENTITY | AUTOMATIC == columns
    assert not written & (IDENTITY | AUTOMATIC)
