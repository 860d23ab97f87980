"""What an exact duplicate leaves behind when it is removed: what it rests on, undone, forgotten and erased."""

from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from mnemic.memory.governance import rollback
from mnemic.state.governance import RollbackOptions
from mnemic.state.identity import Identity
from mnemic.state.records import Message, NewMemory
from mnemic.storage import refinements
from mnemic.storage.database import Database
from tests.support.erasing import ANA, Rule, World, assert_is_needed, erase, erase_person, forget, form
from tests.support.erasing import world as world
from tests.support.refinements import begun, within
from tests.support.rollbacks import owning, restore, undo
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, memory, message, remember

BO = identity("bo", session="s9")
OFFICE, MINE = "agent:harbor", "user:ana"
ROWS = {
    "memories": "select to_jsonb(m) - '{version,updated_at}'::text[] from mnemic.memories m order by id",
    "sources": "select to_jsonb(s) from mnemic.sources s order by memory_id, message_id",
    "relations": "select to_jsonb(r) from mnemic.relations r order by from_id, to_id",
    "entries": "select to_jsonb(e) from mnemic.entries e order by item_id, piece",
}


async def said_twice(
    world: World, kept_by: Identity = ANA, gone_by: Identity = ANA, *, key: str = MINE
) -> tuple[NewMemory, NewMemory, list[Message]]:
    """A core memory and a younger one that says the same, each with the message that it was formed from before it."""
    first = message("I go sailing.", session=kept_by.session_id or "", user=kept_by.user_id)
    second = message("Did I say that I sail?", session=gone_by.session_id or "", user=gone_by.user_id)
    kept = memory("Someone sails.", kind="core", key=key, sources=[first])
    gone = memory("Someone  sails.", kind="core", key=key, sources=[second], valid_from=MORNING + timedelta(days=1))
    await form(world.db, kept_by, [first], kept)
    await form(world.db, gone_by, [second], gone)
    return kept, gone, [first, second]


async def remove(db: Database, key: str, who: Identity = ANA) -> refinements.Claim:
    """A session that finds the one duplicate."""
    session = await begun(db, who, key)
    found: list[int] = []

    async def act(tx: Any) -> None:
        found.append(await refinements.remove_duplicates(tx))

    await within(db, who, session, act, reason="dedup")
    assert found == [1]
    return session


async def undo_all(db: Database, session: refinements.Claim, who: Identity = ANA) -> None:
    await rollback.undo(owning(db, who, session.lease.scope_key), None, RollbackOptions(), refinement_id=session.id)


def rows(superuser: psycopg.Connection) -> dict[str, list[tuple[Any, ...]]]:
    return {name: superuser.execute(query.encode()).fetchall() for name, query in ROWS.items()}


def searched(superuser: psycopg.Connection, *messages: Message) -> list[bool]:
    """Whether each is found by a search."""
    found = superuser.execute("select item_id from mnemic.entries where searchable").fetchall()
    return [(message.id,) in found for message in messages]


async def test_undone_all_rows_are_as_they_were(world: World) -> None:
    kept, gone, _ = await said_twice(world)
    before = rows(world.superuser)
    session = await remove(world.db, MINE)
    assert world.states(kept.id, gone.id) == ["active", "soft_deleted"]

    await undo_all(world.db, session)

    assert rows(world.superuser) == before
    assert world.problems() == []


async def test_forgetting_the_remaining_duplicate_forgets_both_until_restored(world: World) -> None:
    kept, gone, sources = await said_twice(world)
    await remove(world.db, MINE)
    assert searched(world.superuser, *sources) == [True, True]

    await forget(world.db, kept.id)

    assert searched(world.superuser, *sources) == [False, False]
    assert world.states(kept.id, gone.id) == ["soft_deleted"] * 2
    await undo(owning(world.db, ANA, MINE), newest(world.superuser)[1])

    assert searched(world.superuser, *sources) == [True, True]
    assert world.problems() == []


async def test_what_the_living_one_rests_on_through_it_stays_searched(world: World) -> None:
    _, _, sources = await said_twice(world)
    await remember(world.db, ANA, also_from := memory("Ana asks again.", sources=[sources[1]]))
    await remove(world.db, MINE)

    await forget(world.db, also_from.id)

    assert searched(world.superuser, *sources) == [True, True]


async def test_erased_by_its_id_the_duplicate_goes_with_it(world: World) -> None:
    kept, gone, _ = await said_twice(world)
    await remove(world.db, MINE)

    assert {*await erase(world.db, kept.id)} == {kept.id, gone.id}

    assert world.states(kept.id, gone.id) == ["purged"] * 2
    assert world.superuser.execute("select count(*) from mnemic.messages where content is not null").fetchone() == (0,)
    assert world.problems() == []


async def test_equal_words_of_another_person_return_when_the_first_is_erased(world: World) -> None:
    hers, his, _ = await said_twice(world, ANA, BO, key=OFFICE)
    await remove(world.db, OFFICE, BO)
    assert world.states(hers.id, his.id) == ["active", "soft_deleted"]

    await erase_person(world.db)

    assert world.states(hers.id, his.id) == ["purged", "active"]
    assert world.problems() == []


@pytest.mark.parametrize("is_undone", [False, True])
async def test_what_another_person_said_first_stays_when_the_second_is_erased(world: World, is_undone: bool) -> None:
    his, hers, _ = await said_twice(world, BO, ANA, key=OFFICE)
    session = await remove(world.db, OFFICE, BO)
    if is_undone:
        await undo_all(world.db, session, BO)

    await erase_person(world.db)

    assert world.states(his.id, hers.id) == ["active", "purged"]
    assert world.problems() == []


@pytest.mark.parametrize("back", ["an undo of the undo", "a restore"])
async def test_no_rollback_takes_out_of_use_what_nothing_stands_for_any_more(world: World, back: str) -> None:
    hers, his, _ = await said_twice(world, ANA, BO, key=OFFICE)
    session = await remove(world.db, OFFICE, BO)
    removed_at = newest(world.superuser)[0]
    if back == "an undo of the undo":
        await undo_all(world.db, session, BO)
    undone = newest(world.superuser)[1]
    await erase_person(world.db)
    assert world.states(hers.id, his.id) == ["purged", "active"]

    if back == "a restore":
        await restore(owning(world.db, BO, OFFICE), OFFICE, removed_at, skip_erased=True)
    else:
        await undo(owning(world.db, BO, OFFICE), undone)

    assert world.states(hers.id, his.id) == ["purged", "active"]
    assert world.problems() == []


async def test_a_rollback_keeps_forgotten_what_was_forgotten_after_it(world: World) -> None:
    _, his, _ = await said_twice(world, ANA, BO, key=OFFICE)
    await remove(world.db, OFFICE, BO)
    await erase_person(world.db)
    await forget(world.db, his.id)
    forgotten_at = newest(world.superuser)[0]
    bo = owning(world.db, BO, OFFICE)
    await undo(bo, newest(world.superuser)[1])
    await restore(bo, OFFICE, forgotten_at, skip_erased=True)

    assert world.states(his.id) == ["soft_deleted"]
    assert world.problems() == []


def newest(superuser: psycopg.Connection) -> tuple[int, Any]:
    """The last row of the history, and its operation."""
    row = superuser.execute("select revision, op_id from mnemic.history order by revision desc limit 1").fetchone()
    assert row
    return row[0], row[1]


#: A rule.
RULES: dict[str, Rule] = {
    "what is forgotten takes what it holds along": (
        test_forgetting_the_remaining_duplicate_forgets_both_until_restored,
        "source_messages", "'same_as'", "''",
    ),
    "and gives it back": (
        test_forgetting_the_remaining_duplicate_forgets_both_until_restored,
        "roll_back", "source_messages(agent, shown)", "source_messages(agent, '{}')",
    ),
    "a living memory holds what it rests on through others": (
        test_what_the_living_one_rests_on_through_it_stays_searched,
        "is_source_in_use", "'same_as'", "''",
    ),
    "what nothing stands for stays in use": (
        partial(test_no_rollback_takes_out_of_use_what_nothing_stands_for_any_more, back="a restore"),
        "plan_rollback", "w.state = 'purged'", "false",
    ),
    "an erasure takes the same words": (
        test_erased_by_its_id_the_duplicate_goes_with_it,
        "same_as", "= 'same_as'", "= ''",
    ),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("rule", RULES)
async def test_each_rule_about_duplicates_is_needed(fresh_db: Clone, rule: str) -> None:
    await assert_is_needed(fresh_db, RULES[rule])
