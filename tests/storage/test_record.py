"""The audit trail: one row for every change, without gaps, chained, and with its contents apart.

And who did what is not the service's to claim: by a setting, by another act's name, or in what a function left open.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege, UndefinedFunction

from mnemic.state.errors import RefusedError
from mnemic.state.records import Supersession
from mnemic.storage import history, memories
from mnemic.storage.database import Database
from mnemic.storage.schema import bodies
from tests.support.audited import assert_chain_is_whole
from tests.support.erasing import problems
from tests.support.mutating import mutate
from tests.support.refinements import in_a_session
from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL, MORNING, executing, identity, memory, operate, remember

ANA = identity("ana")
BEGIN = "select begin_operation(gen_random_uuid(), 'ana', '{}', null, null, '{{}}')"
CHANGE = "update memories set importance = 5"
CLOSE = "update memories set state = 'soft_deleted'"
INSERT = (
    "insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance, provenance,"
    " valid_from) values ('harbor', gen_random_uuid(), 'fact', 'user:ana', 'Ana', 'profile', 'x', 2, 'asserted', now())"
)
#: All that ever told a trigger who does what.
SETTINGS = (
    ("op_id", str(uuid4())),
    ("actor", "ceo"),
    ("actor_kind", "admin"),
    ("reason", "protection"),
    ("op_session", "s1"),
    ("op_run", "run-7"),
    ("undo_of", str(uuid4())),
    ("refinement_id", str(uuid4())),
    ("op_meta", "{}"),
    ("erasing", "yes"),
    ("op_xid", "1"),
    ("op_began", "now"),
)
ACT = "select begin_refinement_act(gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'ana', '{}')"
ROLL_BACK = "select roll_back('{{user:ana}}', {}, '{}', null, 0, gen_random_uuid(), 'ana')"
NO_CHANGES = "'{}', '{}', '{}', '{}', '{}', '{}', '{}'"
OF_ANOTHER_VERSION = "array(select id from memories), '{1}', '{null}', '{false}', '{}', '{}', '{}'"
#: What persons do by functions that open an operation of theirs.
OPENING = {
    "erase": (
        "select begin_erasure('{user:ana}')",
        "select plan_erasure((select id from erasures), '{user:ana}', array(select id from memories))",
        "select erase_step((select id from erasures), gen_random_uuid(), 'ana', 10)",
    ),
    "undo": (ROLL_BACK.format(NO_CHANGES, "{}"),),
    "undo of what changed later": (ROLL_BACK.format(OF_ANOTHER_VERSION, "{}"),),
    "restore": (ROLL_BACK.format(NO_CHANGES, '{"revision": 2}'),),
    "begin_refinement_act": (ACT.format("merge"),),
}


@pytest.fixture
async def stored(db: Database) -> None:
    """A memory of Ana's that was changed once."""
    await remember(db, ANA, memory("Ana keeps bees."))
    async with db.transaction(ANA) as tx:
        await tx.begin_operation("correct")
        await tx.execute("update memories set importance = 4", {})


@pytest.fixture
def service(clean_db: Clone, stored: None) -> Iterator[psycopg.Connection]:
    """Somebody at the service's own role, who may set what they like."""
    with clean_db.as_role("mnemic_app") as connection:
        for name, value in (("agent_id", AGENT), ("scope_keys", "{user:ana}")):
            connection.execute("select set_config(%s, %s, false)", (f"mnemic.{name}", value))
        yield connection


def kinds(superuser: psycopg.Connection) -> list[tuple[object, ...]]:
    return superuser.execute("select distinct actor_kind, reason from mnemic.history order by 1, 2").fetchall()


def refused(service: psycopg.Connection, *statements: str, match: str = "only inside an operation") -> None:
    """The last of them is refused to a transaction of all."""
    with service.transaction(force_rollback=True):
        for statement in statements[:-1]:
            service.execute(statement.encode())
        with pytest.raises(InsufficientPrivilege, match=match):
            service.execute(statements[-1].encode())


AGENTS_OWN = [("agent", "correct"), ("agent", "formation")]


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("statement", [CHANGE, CLOSE, INSERT])
def test_no_setting_opens_a_write(
    service: psycopg.Connection, superuser: psycopg.Connection, clean_db: Clone, lasting: bool, statement: str
) -> None:
    local = str(not lasting).lower()
    refused(
        service, *(f"select set_config('mnemic.{name}', '{value}', {local})" for name, value in SETTINGS), statement
    )
    assert kinds(superuser) == AGENTS_OWN
    assert problems(clean_db) == []


def test_neither_an_argument_nor_a_setting_changes_what_is_recorded(
    service: psycopg.Connection, superuser: psycopg.Connection
) -> None:
    with pytest.raises(UndefinedFunction):
        service.execute("select begin_operation(gen_random_uuid(), 'ceo', 'admin', 'formation', null, null, '{}')")
    for name, value in SETTINGS:
        service.execute("select set_config(%s, %s, false)", (f"mnemic.{name}", value))
    with service.transaction():
        service.execute(BEGIN.format("formation").encode())
        service.execute(CHANGE)
    columns = "actor, actor_kind, reason, session_id, run_id, undo_of, refinement_id, meta"
    last = superuser.execute(f"select {columns} from mnemic.history order by revision desc limit 1").fetchone()
    assert last == ("ana", "agent", "formation", None, None, None, None, {})


RESERVED = ("protection", "undo", "restore", "erasure", "retention", "ttl", "merge", "dedup")


@pytest.mark.parametrize("reason", RESERVED)
def test_no_reason_that_a_function_gives_is_the_services_to_claim(service: psycopg.Connection, reason: str) -> None:
    refused(service, BEGIN.format(reason), match="reason")


@pytest.mark.parametrize("reason", ["ttl", "erasure", "undo", "formation"])
def test_a_refinement_claims_no_act_but_its_own(service: psycopg.Connection, reason: str) -> None:
    refused(service, ACT.format(reason), match="no act of a refinement")


@pytest.mark.parametrize("name", OPENING)
def test_what_a_function_opened_is_not_open_afterwards(
    service: psycopg.Connection, superuser: psycopg.Connection, name: str
) -> None:
    service.execute("select set_config('mnemic.scope_keys', '{user:ana,user:bo}', false)")
    refused(service, *OPENING[name], INSERT)
    assert kinds(superuser) == AGENTS_OWN


@pytest.mark.thorough
async def test_control_what_is_left_open_is_written_in_as_a_persons(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        await remember(db, ANA, memory("Ana keeps bees."))
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, "close_operation", "agent_id = p_agent", "false")
            async with db.transaction(ANA) as tx:
                opening: Any = OPENING["undo"][0]
                await tx.execute(opening, {})
                await tx.execute("update memories set state = 'soft_deleted'", {})
            assert ("person", "undo") in kinds(superuser)


def test_every_function_that_acts_for_others_closes_what_it_opened() -> None:
    made = bodies()
    opening = {name for name, body in made.items() if "open_operation(" in body}
    assert len(opening) > 5
    closing = {name for name, body in made.items() if "close_operation(" in body}
    assert opening - closing == {"begin_operation"}


def test_an_operation_ends_with_the_savepoint_it_began_in(service: psycopg.Connection) -> None:
    refused(service, "savepoint before", BEGIN.format("formation"), "rollback to before", CHANGE)


@pytest.mark.parametrize(
    "statement",
    [
        "update heads set op_xid = pg_current_xact_id()",
        "insert into heads (agent_id, revision, hash) values ('museum', 0, '')",
        "select operation from heads",
        "select open_operation('harbor', gen_random_uuid(), 'ceo', 'admin', 'formation', null, null, '{}')",
        "select close_operation('harbor')",
        "select open_head('harbor')",
    ],
)
async def test_nobody_writes_a_head_but_the_owners_functions(
    clean_db: Clone, db: Database, stored: None, statement: str
) -> None:
    sent: Any = statement
    with pytest.raises(RefusedError, match="permission denied"):
        async with db.transaction(ANA) as tx:
            await tx.execute(sent, {})
    if not statement.startswith("select operation"):  # whose names stand in the history too
        with clean_db.as_role("mnemic_admin") as admin, pytest.raises(InsufficientPrivilege, match="permission denied"):
            admin.execute(sent)


@pytest.mark.parametrize("stale", ["op_began = now() - interval '1 day'", "op_xid = '1'", None])
def test_an_operation_of_another_time_or_transaction_is_not_open(
    service: psycopg.Connection, superuser: psycopg.Connection, stale: str | None
) -> None:
    """As a dump that was restored into another cluster would bring it; None, the control: with both right it is."""
    with nullcontext() if stale is None else pytest.raises(InsufficientPrivilege), service.transaction():
        row = service.execute("select pg_current_xact_id()::text, transaction_timestamp()").fetchone()
        superuser.execute(
            "update mnemic.heads set op_xid = %s::xid8, op_began = %s,"
            " operation = operation || jsonb_build_object('op_id', gen_random_uuid())",
            row,
        )
        if stale:
            superuser.execute(f"update mnemic.heads set {stale}".encode())
        service.execute(CHANGE)


@pytest.mark.thorough
async def test_control_where_a_setting_opened_an_operation_it_would_pass(fresh_db: Clone) -> None:
    context = "op_xid = pg_current_xact_id() and op_began = transaction_timestamp()"
    async with fresh_db.database() as db:
        await remember(db, ANA, memory("Ana keeps bees."))
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, "open_head", context, "current_setting('mnemic.op_id', true) <> ''")
        async with db.transaction(ANA) as tx:
            await tx.execute("select set_config('mnemic.op_id', gen_random_uuid()::text, true)", {})
            await tx.execute("update memories set importance = 5", {})


# -- what is recorded

ME = identity(session="s1")


async def test_a_memory_tells_its_own_history(db: Database) -> None:
    old, new = memory("Ana lives in Porto."), memory("Ana lives in Lisbon.")
    await remember(db, ME, old)
    async with db.transaction(ME) as tx:
        op_id = await tx.begin_operation("formation", run_id="run-7")
        await memories.insert(tx, [new], model=MODEL, vectors={}, run_id="run-7")
        await memories.supersede(tx, [Supersession(old.id, old_version=1, new_id=new.id, until=MORNING)])
    async with db.transaction(ME) as tx:
        added, closed = await history.read_memory_history(tx, old.id)
    assert (added.event, added.before, added.after) == ("ADD", None, "Ana lives in Porto.")
    assert (closed.event, closed.op_id, closed.reason) == ("SUPERSEDE", op_id, "formation")
    assert (closed.actor, closed.session_id, closed.scope_key) == ("ana", "s1", "user:ana")
    assert closed.revision == added.revision + 2


#: What is done to one memory of 4 tokens, one after the other; what it is called, and the tokens that come or go.
CHANGES = (
    ("importance = 5", "UPDATE", 0),
    ("content = repeat('x', 40)", "UPDATE", 6),
    ("state = 'absorbed', consolidated_into = gen_random_uuid()", "ABSORB", -10),
    ("state = 'active', consolidated_into = null", "RESTORE", 10),
    ("state = 'superseded', superseded_by = gen_random_uuid()", "SUPERSEDE", -10),
    ("state = 'active', superseded_by = null", "RESTORE", 10),
    ("state = 'soft_deleted'", "DELETE", -10),
)


async def test_each_kind_of_change_has_its_event(db: Database, superuser: psycopg.Connection) -> None:
    await remember(db, ME, memory("Ana keeps bees."))
    for change, _, _ in CHANGES:
        await operate(db, ME, in_a_session("user:ana", executing(f"update memories set {change}")))
    rows = superuser.execute(
        "select event, token_delta, scope_key, category from mnemic.history where event <> 'SESSION' order by revision"
    ).fetchall()
    expected = [("ADD", 4), *((event, tokens) for _, event, tokens in CHANGES)]
    assert rows == [(event, tokens, "user:ana", "profile") for event, tokens in expected]


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
        " join mnemic.history_contents using (agent_id, revision) where agent_id = %s order by revision"
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
