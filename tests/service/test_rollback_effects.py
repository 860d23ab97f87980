"""What else a rollback moves: other words, relations, absorbed reflections, and the messages that memories rest on."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest

from mnemic.memory.governance import retention, rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.state.identity import Identity
from mnemic.state.records import Message, NewMemory, Relation, Supersession
from mnemic.storage import memories
from mnemic.storage.database import Database
from tests.support.erasing import form
from tests.support.mutating import mutate
from tests.support.refinements import in_a_session
from tests.support.rollbacks import ANA, administrator_of, forgotten, op_ids, restore, undo
from tests.support.server import Clone
from tests.support.worlds import AGENT, MORNING, executing, identity, memory, message, operate, remember, storing

BO = identity("bo", session="s1")


async def last_operation(db: Database) -> UUID:
    """The newest that changed memories of Ana's."""
    found = await rollback.operations(Principal.person(db, ANA), limit=100)
    return next(item.id for item in found if {*item.events} != {"SESSION"})


async def is_searched(db: Database, said: Message, who: Identity = ANA) -> bool:
    async with db.transaction(who) as tx:
        rows = await tx.tuples("select distinct searchable from entries where item_id = %(id)s", {"id": said.id})
    ((living,),) = rows
    return bool(living)


async def states(db: Database, *new: NewMemory) -> list[str]:
    async with db.transaction(ANA) as tx:
        return [found.state for item in new if (found := await memories.find(tx, item.id))]


async def test_an_undone_consolidation_gives_back_what_it_took_in(person: Principal, db: Database) -> None:
    short, quiet = (memory(text, kind="reflection") for text in ("Ana is brief.", "Ana is quiet."))
    whole = memory("Ana is brief and quiet.", kind="consolidation")
    await remember(db, ANA, short, quiet)
    await operate(db, ANA, storing(whole), lambda tx: memories.absorb(tx, whole.id, [short.id, quiet.id]))
    assert await states(db, short, quiet, whole) == ["absorbed", "absorbed", "active"]
    await undo(person, await last_operation(db))
    assert await states(db, short, quiet, whole) == ["active", "active", "soft_deleted"]


async def test_a_restore_gives_two_memories_back_what_each_of_them_said(person: Principal, db: Database) -> None:
    """One says by now what the other one said."""
    bees, boats = memory("Ana keeps bees."), memory("Ana sails.")
    await remember(db, ANA, bees, boats)
    for each, content in [(bees, "Nothing."), (boats, bees.content), (bees, boats.content)]:
        say = executing("update memories set content = %(text)s where id = %(id)s", text=content, id=each.id)
        await operate(db, ANA, in_a_session("user:ana", say))
    await restore(person, "user:ana", 2)
    async with db.transaction(ANA) as tx:
        now = {item.id: item.content for item in await memories.list_memories(tx, ["fact"], limit=9)}
    assert now == {bees.id: "Ana keeps bees.", boats.id: "Ana sails."}


async def test_relations_go_with_what_was_stored_and_come_back_with_it(
    person: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    bees = memory("Ana keeps bees.")
    honey = replace(memory("Ana sells honey."), relations=(Relation(to_id=bees.id, strength=0.5),))
    await remember(db, ANA, bees)
    await remember(db, ANA, honey)

    def relations() -> list[tuple[object, ...]]:
        return superuser.execute("select * from mnemic.relations").fetchall()

    before = relations()
    undone = await undo(person, await last_operation(db))
    assert (len(before), undone.relations, relations()) == (1, 1, [])
    assert undone.op_id
    await undo(person, undone.op_id)
    assert relations() == before


async def test_a_message_leaves_search_with_the_last_memory_that_rests_on_it(
    person: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    said = message("I keep bees and sail.")
    await form(db, ANA, [said], memory("Ana keeps bees.", sources=[said]))
    await remember(db, ANA, memory("Ana sails.", sources=[said]))
    undone = []
    for op_id, searched in zip(op_ids(superuser), (True, False), strict=True):
        undone.append((await undo(person, op_id)).op_id)
        assert await is_searched(db, said) is searched
    assert undone[0]
    await undo(person, undone[0])
    assert await is_searched(db, said)


async def test_a_message_comes_back_with_a_superseded_memory_that_returns(
    person: Principal, db: Database, superuser: psycopg.Connection
) -> None:
    said = message("I keep bees and sail.")
    bees, boats = memory("Ana keeps bees.", sources=[said]), memory("Ana sails.", sources=[said])
    wasps = memory("Ana keeps wasps.")
    await form(db, ANA, [said], bees, boats, wasps)
    change = Supersession(old_id=bees.id, old_version=1, new_id=wasps.id, until=MORNING)
    await operate(db, ANA, lambda tx: memories.supersede(tx, [change]))
    await forgotten(db, boats)
    assert not await is_searched(db, said)
    await undo(person, op_ids(superuser)[1])
    assert await states(db, bees, boats) == ["active", "soft_deleted"]
    assert await is_searched(db, said)


@pytest.mark.parametrize("by", ["restore", "undo"])
async def test_what_an_erased_consolidation_had_taken_in_never_goes_back_into_it(db: Database, by: str) -> None:
    person = Principal.person(db, ANA)
    short, whole = memory("Ana is brief.", kind="reflection"), memory("Ana says little.", kind="consolidation")
    await remember(db, ANA, short)
    await operate(db, ANA, storing(whole), lambda tx: memories.absorb(tx, whole.id, [short.id]))
    await retention.erase(person, [whole.id], dry_run=False, progress=None)
    assert await states(db, short, whole) == ["active", "purged"]
    if by == "restore":
        done = await restore(person, "user:ana", 3, skip_erased=True)
    else:
        done = await undo(person, await last_operation(db), skip_erased=True)
    assert [item.id for item in done.erased] == [whole.id]
    assert done.changes == ()
    assert await states(db, short, whole) == ["active", "purged"]


@pytest.mark.parametrize("by", ["undo", "forget"])
async def test_what_somebody_else_said_stays_in_their_search(db: Database, administrator: Principal, by: str) -> None:
    person = Principal.person(db, ANA)
    said, mine = message("The harbor closes at ten.", user="bo"), memory("Bo told of the harbor.")
    mine = replace(mine, source_message_ids=(said.id,))
    formation = await form(db, ANA, [said], mine, also=["user:bo"])
    await (undo(person, formation) if by == "undo" else forgotten(db, mine))
    assert await states(db, mine) == ["soft_deleted"]
    assert await is_searched(db, said, BO)
    await undo(person, await last_operation(db))
    await undo(administrator, formation, cascade=True)  # whose work it is to take back the whole of it
    assert await states(db, mine) == ["soft_deleted"]
    assert not await is_searched(db, said, BO)


async def test_memory_forgotten_by_another_user_does_not_return_to_their_search(db: Database) -> None:
    said = message("Bo keeps a secret.", user="bo")
    mine, his = (memory("Bo told a secret.", key=key, sources=[said]) for key in ("user:ana", "user:bo"))
    await form(db, ANA, [said], mine, his, also=["user:bo"])
    await forgotten(db, mine)
    forgot = await last_operation(db)
    await forgotten(db, his, who=BO)
    assert not await is_searched(db, said, BO)
    await undo(Principal.person(db, ANA), forgot)
    assert await states(db, mine) == ["active"]
    assert not await is_searched(db, said, BO)


_OWN = "(own is null or e.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[]))"


_SAID_BY_OTHERS = ("roll_back", _OWN, "true")
#: The test that shows a rule, and the rule broken.
RULES: dict[str, tuple[Callable[[Database, Principal], Awaitable[None]], tuple[str, str, str]]] = {
    "stays free": (
        lambda db, _: test_what_an_erased_consolidation_had_taken_in_never_goes_back_into_it(db, "restore"),
        ("restored_row", "c.state = 'purged'::text", "false"),
    ),
    "stays searched": (
        lambda db, office: test_what_somebody_else_said_stays_in_their_search(db, office, "undo"),
        _SAID_BY_OTHERS,
    ),
    "stays hidden": (
        lambda db, _: test_memory_forgotten_by_another_user_does_not_return_to_their_search(db),
        _SAID_BY_OTHERS,
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
async def test_each_rule_about_what_a_rollback_leaves_alone_is_needed(fresh_db: Clone, rule: str) -> None:
    shown_by, wrong = RULES[rule]
    with fresh_db.as_superuser() as superuser:
        mutate(superuser, *wrong)
    async with fresh_db.database() as db, administrator_of(fresh_db, AGENT) as administrator:
        with pytest.raises(AssertionError):
            await shown_by(db, administrator)


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
    found = superuser.execute("select pg_get_functiondef('mnemic.roll_back'::regproc)").fetchone()
    assert found
    written = set(re.findall(r"(\w+) = (?:case .* else )?f\.\1\b", found[0])) - {"id"}
    assert written | IDENTITY | AUTOMATIC == columns
    assert not written & (IDENTITY | AUTOMATIC)
