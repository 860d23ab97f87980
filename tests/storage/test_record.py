"""Who did what is not the service's to claim: by a setting, by another act's name, or in what a function left open."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import resources
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege, UndefinedFunction

from mnemic.state.errors import RefusedError
from mnemic.storage.database import Database
from tests.support.erasing import problems
from tests.support.mutating import mutate
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, memory, remember

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
ROLL_BACK = "select roll_back('{{user:ana}}', {}, '{}', null, 0, gen_random_uuid(), 'ana')"
NO_CHANGES = "'{}', '{}', '{}', '{}', '{}'"
OF_ANOTHER_VERSION = "array(select id from memories), '{1}', '{null}', '{false}', '{}'"
#: What persons do by functions that open an operation of theirs.
OPENING = {
    "erase": (
        "select begin_erasure('{user:ana}', 'ana')",
        "select plan_erasure((select id from erasures), '{user:ana}', array(select id from memories))",
        "select erase_step((select id from erasures), gen_random_uuid(), 'ana', 10)",
    ),
    "undo": (ROLL_BACK.format(NO_CHANGES, "{}"),),
    "undo of what changed later": (ROLL_BACK.format(OF_ANOTHER_VERSION, "{}"),),
    "restore": (ROLL_BACK.format(NO_CHANGES, '{"seq": 2}'),),
    "begin_act": ("select begin_act(gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'ana', 'merge')",),
}


@pytest.fixture
async def stored(db: Database) -> None:
    """A memory of Ana's that was changed once."""
    await remember(db, ANA, memory("Ana keeps bees."))
    async with db.scoped(ANA) as scoped:
        await scoped.begin_operation("correct")
        await scoped.execute("update memories set importance = 4", {})


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


def test_the_service_has_no_way_to_name_a_kind(service: psycopg.Connection, superuser: psycopg.Connection) -> None:
    with pytest.raises(UndefinedFunction):
        service.execute("select begin_operation(gen_random_uuid(), 'ceo', 'admin', 'formation', null, null, '{}')")
    assert kinds(superuser) == AGENTS_OWN
    with service.transaction():  # but its own acts are told of as an agent's
        service.execute(BEGIN.format("formation").encode())
        service.execute(CHANGE)
    last = superuser.execute("select event, actor_kind from mnemic.history order by seq desc limit 1").fetchone()
    assert last == ("UPDATE", "agent")


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


def test_settings_change_nothing_of_what_is_recorded(
    service: psycopg.Connection, superuser: psycopg.Connection
) -> None:
    for name, value in SETTINGS:
        service.execute("select set_config(%s, %s, false)", (f"mnemic.{name}", value))
    with service.transaction():
        service.execute(BEGIN.format("formation").encode())
        service.execute(CHANGE)
    columns = "actor, actor_kind, reason, session_id, run_id, undo_of, refinement_id, meta"
    last = superuser.execute(f"select {columns} from mnemic.history order by seq desc limit 1").fetchone()
    assert last == ("ana", "agent", "formation", None, None, None, None, {})


@pytest.mark.parametrize("role", ["mnemic_app", "mnemic_admin"])
def test_no_function_of_a_role_takes_a_kind(superuser: psycopg.Connection, role: str) -> None:
    granted = (
        "select proname, 'p_actor_kind' = any(proargnames) from pg_proc"
        " where pronamespace = 'mnemic'::regnamespace and has_function_privilege(%s, oid, 'execute') and prosecdef"
    )
    found: dict[str, bool] = dict(superuser.execute(granted, (role,)).fetchall())
    assert len(found) > 5
    assert not any(found.values())


def reasons_of_functions() -> set[str]:
    """What the schema's functions give themselves as a reason."""
    schema = resources.files("mnemic.storage").joinpath("schema.sql").read_text(encoding="utf-8")
    calls = re.findall(r"open_operation\([^;]*?(?:'person'|'admin'|p_actor_kind)(, [^;]*?),\s+null", schema)
    return {reason for call in calls for reason in re.findall(r"(?:,|then|else) '(\w+)'", call)}


def test_no_reason_that_a_function_gives_is_the_services_to_claim(service: psycopg.Connection) -> None:
    assert reasons_of_functions() == {"protection", "undo", "restore", "erasure", "retention"}
    # what a purge trusts, and what names what is merged or repeated
    for reason in reasons_of_functions() | {"ttl", "merge", "dedup"}:
        refused(service, BEGIN.format(reason), match="reason")


@pytest.mark.parametrize("reason", ["ttl", "erasure", "undo", "formation"])
def test_a_refinement_claims_no_act_but_its_own(service: psycopg.Connection, reason: str) -> None:
    ids = ", ".join(["gen_random_uuid()"] * 3)
    refused(service, f"select begin_act({ids}, 'ana', '{reason}')", match="no act of a refinement")


@pytest.mark.parametrize("name", OPENING)
def test_what_a_function_opened_is_not_open_afterwards(
    service: psycopg.Connection, superuser: psycopg.Connection, name: str
) -> None:
    service.execute("select set_config('mnemic.scope_keys', '{user:ana,user:bo}', false)")
    refused(service, *OPENING[name], INSERT)
    assert kinds(superuser) == AGENTS_OWN


async def test_control_what_is_left_open_is_written_in_as_a_persons(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        await remember(db, ANA, memory("Ana keeps bees."))
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, "close_operation", "agent_id = p_agent", "false")
            async with db.scoped(ANA) as scoped:
                opening: Any = OPENING["undo"][0]
                await scoped.execute(opening, {})
                await scoped.execute("update memories set state = 'soft_deleted'", {})
            assert ("person", "undo") in kinds(superuser)


def test_every_function_that_acts_for_others_closes_what_it_opened() -> None:
    schema = resources.files("mnemic.storage").joinpath("schema.sql").read_text(encoding="utf-8")
    bodies = dict(
        re.findall(r"^create function (\w+)\((?:(?!^create ).)*?\$\$(.*?)\$\$", schema, re.DOTALL | re.MULTILINE)
    )
    opening = {name for name, body in bodies.items() if "open_operation(" in body}
    assert len(opening) > 5
    closing = {name for name, body in bodies.items() if "close_operation(" in body}
    assert opening - closing == {"begin_operation"}


def test_an_operation_ends_with_the_savepoint_it_began_in(service: psycopg.Connection) -> None:
    refused(service, "savepoint before", BEGIN.format("formation"), "rollback to before", CHANGE)


@pytest.mark.parametrize(
    "statement",
    [
        "update heads set op_xid = pg_current_xact_id()",
        "insert into heads (agent_id, seq, hash) values ('museum', 0, '')",
        "select actor from heads",
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
        async with db.scoped(ANA) as scoped:
            await scoped.execute(sent, {})
    if not statement.startswith("select actor"):  # whose names stand in the history too
        with clean_db.as_role("mnemic_admin") as admin, pytest.raises(InsufficientPrivilege, match="permission denied"):
            admin.execute(sent)


@pytest.mark.parametrize("stale", ["op_began = now() - interval '1 day'", "op_xid = '1'", None])
def test_an_operation_of_another_time_or_transaction_is_not_open(
    service: psycopg.Connection, superuser: psycopg.Connection, stale: str | None
) -> None:
    """As a dump that was restored into another cluster would bring it; None, the control: with both right it is."""
    with nullcontext() if stale is None else pytest.raises(InsufficientPrivilege), service.transaction():
        row = service.execute("select pg_current_xact_id()::text, transaction_timestamp()").fetchone()
        superuser.execute("update mnemic.heads set op_xid = %s::xid8, op_began = %s, op_id = gen_random_uuid()", row)
        if stale:
            superuser.execute(f"update mnemic.heads set {stale}".encode())
        service.execute(CHANGE)


async def test_control_where_a_setting_opened_an_operation_it_would_pass(fresh_db: Clone) -> None:
    context = "op_xid = pg_current_xact_id() and op_began = transaction_timestamp()"
    async with fresh_db.database() as db:
        await remember(db, ANA, memory("Ana keeps bees."))
        with fresh_db.as_superuser() as superuser:
            mutate(superuser, "open_head", context, "current_setting('mnemic.op_id', true) <> ''")
        async with db.scoped(ANA) as scoped:
            await scoped.execute("select set_config('mnemic.op_id', gen_random_uuid()::text, true)", {})
            await scoped.execute("update memories set importance = 5", {})
