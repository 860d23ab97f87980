"""The audit trail: one row for every change, without gaps, chained, and with its contents apart."""

from typing import LiteralString

import psycopg
import pytest

from mnemic.state.errors import InvalidInputError
from mnemic.state.records import Supersession
from mnemic.storage import history, memories
from mnemic.storage.database import Database
from tests.support.audited import assert_chain_is_whole
from tests.support.refinements import in_a_session
from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL, MORNING, identity, memory, operate, remember

ME = identity(session="s1")


async def test_a_memory_tells_its_own_history(db: Database) -> None:
    old, new = memory("Ana lives in Porto."), memory("Ana lives in Lisbon.")
    await remember(db, ME, old)
    async with db.scoped(ME) as scoped:
        op_id = await scoped.begin_operation("formation", run_id="run-7")
        await memories.insert(scoped, [new], model=MODEL, vectors={}, run_id="run-7")
        await memories.supersede(scoped, [(Supersession(old_id=old.id, old_version=1, new_id=new.id), MORNING)])
    async with db.scoped(ME) as scoped:
        added, closed = await history.of_memory(scoped, old.id)
    assert (added.event, added.before, added.after) == ("ADD", None, "Ana lives in Porto.")
    assert (closed.event, closed.op_id, closed.reason) == ("SUPERSEDE", op_id, "formation")
    assert (closed.actor, closed.session_id, closed.scope_key) == ("ana", "s1", "user:ana")
    assert closed.seq == added.seq + 2


EVENTS = [
    ("importance = 5", "UPDATE", 0),
    ("content = repeat('x', 40)", "UPDATE", 10 - 4),
    ("state = 'absorbed', consolidated_into = gen_random_uuid()", "ABSORB", -4),
    ("state = 'superseded', superseded_by = gen_random_uuid()", "SUPERSEDE", -4),
    ("state = 'soft_deleted'", "DELETE", -4),
]


@pytest.mark.parametrize(("change", "event", "tokens"), EVENTS)
async def test_each_kind_of_change_has_its_event(
    db: Database, superuser: psycopg.Connection, change: str, event: str, tokens: int
) -> None:
    await remember(db, ME, memory("Ana keeps bees."))  # 15 characters, 4 tokens
    await operate(db, ME, in_a_session("user:ana", lambda scoped: scoped.execute(f"update memories set {change}", {})))
    rows = superuser.execute(
        "select event, token_delta, scope_key, category from mnemic.history where event <> 'SESSION' order by seq"
    ).fetchall()
    assert rows == [("ADD", 4, "user:ana", "profile"), (event, tokens, "user:ana", "profile")]


async def test_a_revival_is_a_restore(db: Database, superuser: psycopg.Connection) -> None:
    await remember(db, ME, memory("Ana keeps bees."))
    for state in ("soft_deleted", "active"):
        async with db.scoped(ME) as scoped:
            await scoped.begin_operation("formation")
            await scoped.execute(f"update memories set state = '{state}'", {})
    assert superuser.execute("select event, token_delta from mnemic.history order by seq offset 2").fetchall() == [
        ("RESTORE", 4)
    ]


_NEW = (
    "insert into mnemic.memories (agent_id, id, kind, scope_key, subject, category, content, importance, provenance,"
    " valid_from)"
)
_OPERATION = "select mnemic.open_operation(%s, gen_random_uuid(), 'somebody', 'admin', 'repair', null, null, '{}')"


def _operate(clone: Clone, statement: LiteralString, *agents: str) -> None:
    """A statement of the database's owner, whom no policy keeps to one agent."""
    with clone.as_superuser() as connection, connection.transaction():
        for agent in agents:
            connection.execute("insert into mnemic.agents values (%s) on conflict do nothing", (agent,))
            connection.execute(_OPERATION, (agent,))
        connection.execute(statement)


def _events(superuser: psycopg.Connection, agent: str = AGENT) -> list[tuple[object, ...]]:
    statement = (
        "select event, coalesce(after, before) ->> 'content' from mnemic.history"
        " join mnemic.history_contents using (agent_id, seq) where agent_id = %s order by seq"
    )
    return superuser.execute(statement, (agent,)).fetchall()


async def test_rows_of_two_agents_in_one_statement_go_to_the_chains_of_both(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    statement: LiteralString = (
        f"{_NEW} select 'agent' || n % 2, gen_random_uuid(), 'fact', 'user:ana', 'Ana', 'tasks', 'row ' || n, 3,"
        " 'asserted', now() from generate_series(1, 7) as n"
    )
    _operate(clean_db, statement, "agent0", "agent1")
    _operate(clean_db, "update mnemic.memories set importance = 5", "agent0", "agent1")
    for agent, places in (("agent0", (2, 4, 6)), ("agent1", (1, 3, 5, 7))):
        # within a statement the rows come in any order
        events = _events(superuser, agent)
        assert sorted(events[: len(places)]) == [("ADD", f"row {place}") for place in places]
        assert sorted(events[len(places) :]) == [("UPDATE", f"row {place}") for place in places]
        assert_chain_is_whole(superuser, agent)


async def test_every_part_of_a_statement_is_recorded(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    """Two inserts, an update and a delete in one statement; a row that is left out leaves no trace."""
    await remember(db, ME, memory("old"), memory("gone"))
    row = "select '{}', gen_random_uuid(), 'fact', 'user:ana', 'Ana', 'profile', '{}', 3, 'asserted', now()"
    parts = [f"{_NEW} {row.format(AGENT, content)} on conflict do nothing" for content in ("one", "two", "old")]
    statement = (
        f"with a as ({parts[0]}), b as ({parts[1]}), c as ({parts[2]}),"
        " d as (update mnemic.memories set importance = 5 where content = 'old')"
        " delete from mnemic.memories where content = 'gone'"
    )
    with clean_db.as_superuser() as connection, connection.transaction():
        connection.execute("set local role mnemic_owner")
        connection.execute(_OPERATION, (AGENT,))
        connection.execute(statement.encode())
    changed = sorted(_events(superuser)[2:], key=str)
    assert changed == [("ADD", "one"), ("ADD", "two"), ("DELETE", "gone"), ("UPDATE", "old")]
    assert_chain_is_whole(superuser, AGENT)


async def test_a_row_that_becomes_another_leaves_a_row_for_both(fresh_db: Clone) -> None:
    """What the guard refuses; the audit does not rely on it."""
    async with fresh_db.database() as db:
        await remember(db, ME, memory("Ana keeps bees."))
        with fresh_db.as_superuser() as connection:
            connection.execute("alter table mnemic.memories disable trigger guard")
            _operate(fresh_db, "update mnemic.memories set id = gen_random_uuid()", AGENT)
            assert sorted(str(event) for event, _ in _events(connection)) == ["ADD", "ADD", "DELETE"]
            assert_chain_is_whole(connection, AGENT)


async def test_what_cannot_be_recorded_does_not_happen(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        await remember(db, ME, memory("Ana keeps bees."))
        with fresh_db.as_superuser() as connection:
            connection.execute("alter table mnemic.history_contents add check (after ->> 'content' <> 'forged')")
            with pytest.raises(InvalidInputError):
                await remember(db, ME, memory("Ana sings."), memory("forged"))
            assert connection.execute("select content from mnemic.memories").fetchall() == [("Ana keeps bees.",)]
            assert _events(connection) == [("ADD", "Ana keeps bees.")]
            assert_chain_is_whole(connection, AGENT)


async def test_a_hundred_rows_move_the_head_once(db: Database, superuser: psycopg.Connection) -> None:
    """Once more than the operation that opens on it: each version is one that the next has to step over."""
    await remember(db, ME)
    versions = "select pg_stat_get_xact_tuples_updated('heads'::regclass)"
    async with db.scoped(ME) as scoped:
        await scoped.begin_operation("formation")
        new = [memory(f"fact {number}") for number in range(100)]
        assert len(await memories.insert(scoped, new, model=MODEL, vectors={}, run_id=None)) == 100
        assert await (await scoped.execute(versions, {})).fetchone() == (2,)
    ordered = [content for _, content in _events(superuser)]
    assert ordered == [one.content for one in sorted(new, key=lambda one: one.id)]
