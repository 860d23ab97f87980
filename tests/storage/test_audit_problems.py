"""Whoever changes the history, or memories behind its back, is found out; what only anchors find: test_audit.

And no false alarm: histories as the product writes them have no problems, whoever writes meanwhile.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest

from mnemic.memory.governance.chain import COLUMNS, check_export, header_line, row_line
from mnemic.state.identity import Identity
from mnemic.state.records import Relation
from mnemic.state.settings import Settings
from mnemic.storage import erasure, history
from mnemic.storage.database import Database
from tests.support.audited import EVENTS, Story, administration, tell
from tests.support.erasing import expire, problems
from tests.support.server import Clone, Server, cloned
from tests.support.worlds import AGENT, identity, memory, remember

SearchResult = set[tuple[str, int | None]]
NOBODY = "00000000-0000-0000-0000-000000000007"


class World(NamedTuple):
    connection: psycopg.Connection
    story: Story


@pytest.fixture(scope="module")
def world(server: Server, template: str) -> Iterator[World]:
    """A database in which everything has happened once, and a superuser; each test rolls back what it does."""
    with cloned(server, template) as clone:
        story = asyncio.run(_told(clone))
        with clone.as_superuser() as connection:
            connection.execute("set search_path = mnemic; set timezone = 'UTC'")
            yield World(connection, story)


async def _told(clone: Clone) -> Story:
    async with clone.database() as db:
        story = await tell(clone, db)
        await remember(db, identity(agent="museum"), memory("Ana paints."), memory("Ana draws."))
        return story


@contextmanager
def tampering(world: World) -> Iterator[None]:
    """A superuser with every trigger off, whose work is undone at the end."""
    with world.connection.transaction(force_rollback=True):
        world.connection.execute("set local session_replication_role = replica")
        yield


def change(world: World, *statements: str) -> None:
    """Each statement has to change something; names of the story's memories stand in braces."""
    for statement in statements:
        cursor = world.connection.execute(statement.format(**vars(world.story)).encode())
        assert cursor.rowcount, statement


def found(world: World, agent: str = AGENT) -> SearchResult:
    """What the administrators' role is told: code and revision."""
    return {(problem, revision) for problem, revision, _ in told(world, agent)}


def told(world: World, agent: str = AGENT) -> list[tuple[str, int | None, UUID | None]]:
    with world.connection.transaction(force_rollback=True):
        world.connection.execute("set local role mnemic_admin")
        world.connection.execute("select set_config('mnemic.agent_id', %s, true)", (agent,))
        return world.connection.execute("select problem, revision, memory_id from audit_problems()").fetchall()


def test_a_history_as_it_was_written_has_no_problems(world: World) -> None:
    events = world.connection.execute(
        "select event from history where agent_id = %s order by revision", (AGENT,)
    ).fetchall()
    assert tuple(event for (event,) in events) == EVENTS
    assert (found(world), found(world, "museum"), found(world, "nobody")) == (set(), set(), set())


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns", "UTC"])
def test_how_a_session_shows_times_and_figures_raises_no_alarm(world: World, zone: str) -> None:
    with world.connection.transaction(force_rollback=True):
        world.connection.execute(
            f"set local timezone = '{zone}'; set local datestyle = 'German, DMY'; set local bytea_output = 'escape';"
            " set local extra_float_digits = -5; set local intervalstyle = 'iso_8601'".encode()
        )
        assert found(world) == set()


#: Another value for each type of column.
OTHER = {
    "text": "'x'",
    "uuid": f"'{NOBODY}'",
    "bytea": "sha256('')",
    "smallint": "5",
    "integer": "{column} + 1",
    "bigint": "99",
    "boolean": "not {column}",
    "jsonb": '{column} || \'{{{{"content": "x"}}}}\'',
    "text[]": "'{{{{x}}}}'",
    "timestamp with time zone": "{column} + interval '1 microsecond'",
}
#: At row 4, which closes a memory: what is found where it is anything else than the row's hash.
HISTORY: dict[str, SearchResult] = {
    "agent_id": {("gap", 5), ("chain", 5), ("contents", 4)},
    "revision": {("gap", 5), ("chain", 5), ("contents", 4), ("hash", 99), ("chain", 99), ("gap", 99), ("head", 17),
            ("contents", 99), ("replay", 99)},
    "memory_id": {("hash", 4), ("replay", 4)},
    "scope_key": {("hash", 4), ("contents", 4)},
    "before_digest": {("hash", 4), ("contents", 4)},
    "after_digest": {("hash", 4), ("contents", 4)},
    "prev": {("hash", 4), ("chain", 4)},
    "hash": {("hash", 4), ("chain", 5)},
}  # fmt: skip
TABLES: dict[str, tuple[dict[str, SearchResult], SearchResult]] = {
    "history": (HISTORY, {("hash", 4)}),
    "history_contents": ({"revision": {("contents", 4), ("contents", 99)}}, {("contents", 4)}),
    # what the last operation left in the head is told by nobody
    "heads": ({"agent_id": {("head", 17)}, "revision": {("head", 99)}, "hash": {("head", 17)}}, set()),
}


def columns(world: World, table: str) -> list[tuple[str, str]]:
    """The columns that are written, with another value for each."""
    rows = world.connection.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = %s::regclass"
        " and attnum > 0 and not attisdropped and attgenerated = '' and atttypid <> 'xid8'::regtype",
        (table,),
    )
    return [(name, OTHER[kind].format(column=name)) for name, kind in rows.fetchall()]


@pytest.mark.parametrize("table", TABLES)
def test_a_change_of_any_column_is_named(world: World, table: str) -> None:
    special, otherwise = TABLES[table]
    row = "" if table == "heads" else " and revision = 4"
    for column, value in columns(world, table):
        with tampering(world):
            change(world, f"update {table} set {column} = {value} where agent_id = '{AGENT}'{row}")
            assert found(world) == special.get(column, otherwise), column


def test_control_a_column_that_the_hash_does_not_know_changes_unnamed(world: World) -> None:
    with tampering(world):
        world.connection.execute("alter table history add column note text")
        assert "note" in dict(columns(world, "history"))
        change(world, f"update history set note = 'x' where agent_id = '{AGENT}' and revision = 4")
        assert found(world) == set()


def test_contents_that_are_gone_are_missed_but_for_those_of_the_erased(world: World) -> None:
    for revision, event in enumerate(EVENTS, start=1):
        with tampering(world):
            world.connection.execute(
                "delete from history_contents where agent_id = %s and revision = %s", (AGENT, revision)
            )
            named = {problem for problem, _ in found(world)}
            if revision in (10, 11):
                assert named == set()  # erased, and so are these
            else:
                assert named & {"contents", "replay"}, event


def test_two_swapped_rows_are_named(world: World) -> None:
    with tampering(world):
        for table in ("history", "history_contents"):
            change(
                world,
                f"update {table} set revision = -4 where agent_id = '{AGENT}' and revision = 4",
                f"update {table} set revision = 4 where agent_id = '{AGENT}' and revision = 5",
                f"update {table} set revision = 5 where agent_id = '{AGENT}' and revision = -4",
            )
        assert found(world) == {("hash", 4), ("hash", 5), ("chain", 4), ("chain", 5), ("chain", 6)}


def test_a_row_moved_to_another_agent_is_named_at_both(world: World) -> None:
    with tampering(world):
        for table in ("history", "history_contents"):
            change(
                world,
                f"update {table} set agent_id = 'museum', revision = 3 where agent_id = '{AGENT}' and revision = 4",
            )
        assert found(world) == {("gap", 5), ("chain", 5)}
        assert found(world, "museum") == {("hash", 3), ("chain", 3), ("head", 2), ("replay", 3)}


# -- behind the history's back

#: Of the memory that lives on after an undo, where not every value may stand: another one.
MEMORY = {
    "kind": "kind = 'episode'",
    "provenance": "provenance = 'inferred'",
    "state": "state = 'soft_deleted'",
    "superseded_by": f"state = 'superseded', superseded_by = '{NOBODY}'",
    "absorbed_at": "absorbed_at = now()",
    "consolidated_into": f"state = 'absorbed', consolidated_into = '{NOBODY}'",
    "valid_until": "valid_until = now()",
    "purge_at": "purge_at = now()",
}


def test_a_memory_changed_behind_the_triggers_is_named(world: World) -> None:
    for column, value in columns(world, "memories"):
        assignment = MEMORY.get(column, f"{column} = {value}")
        with tampering(world):
            change(world, f"update memories set {assignment} where agent_id = '{AGENT}' and id = '{{porto}}'")
            assert ("replay", 9, world.story.porto) in told(world), column
            assert {problem for problem, _ in found(world)} <= {"replay", "entry"}


_LISBON = "where item_id = '{lisbon}'"
SIMPLE: dict[str, tuple[str, SearchResult]] = {
    "a row of the history removed": (
        f"delete from history where agent_id = '{AGENT}' and revision = 4",
        {("gap", 5), ("chain", 5), ("contents", 4)},
    ),
    "a memory removed": ("delete from memories where id = '{bike}'", {("replay", 14)}),
    "a memory added": (
        "insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance, provenance,"
        f" valid_from) values ('harbor', '{NOBODY}', 'fact', 'user:ana', 'Ana', 'profile', 'A', 3, 'asserted', now())",
        {("replay", None), ("entry", None)},
    ),
    "a relation removed": ("delete from relations", {("relation", 3)}),
    "a relation changed": ("update relations set strength = 0.71", {("relation", 3)}),
    "a relation turned": ("update relations set to_id = '{shared}'", {("relation", 3), ("relation", None)}),
    "a relation added": (
        "insert into relations values ('harbor', '{porto}', '{lisbon}', 'related_to', 1, 'user:ana', 'user:ana')",
        {("relation", None)},
    ),
    "a forgotten memory revived": ("update entries set searchable = true where item_id = '{bike}'", {("entry", None)}),
    "a memory taken out of search": (f"delete from entries {_LISBON}", {("entry", None)}),
    "a forgotten memory that cannot come back to search": (
        "delete from entries where item_id = '{bike}'",
        {("entry", None)},
    ),
    "a living memory hidden": (f"update entries set searchable = false {_LISBON}", {("entry", None)}),
    "an entry shown to others": (f"update entries set scope_key = 'agent:harbor' {_LISBON}", {("entry", None)}),
    "an entry in another category": (f"update entries set category = 'tasks' {_LISBON}", {("entry", None)}),
    "an entry of another kind": (f"update entries set kind = 'episode' {_LISBON}", {("entry", None)}),
    "an entry of the erased": (
        f"update entries set item_id = '{{erased}}', searchable = false {_LISBON}",
        {("entry", None)},
    ),
    "an erased memory that speaks": (
        "update memories set content = 'x' where id = '{erased}'",
        {("replay", 12)},
    ),
    "an erasure that is not to have been": (
        "update memories set state = 'active', content = 'x' where id = '{erased}'",
        {("replay", 12), ("contents", 10), ("contents", 11), ("entry", None)},
    ),
    "contents of the erased": (
        "insert into history_contents select agent_id, 10, scope_key, salt, before, after from history_contents where"
        " agent_id = 'harbor' and revision = 9",
        {("contents", 10), ("erased", 10)},
    ),
    "the heads gone": ("delete from heads", {("head", 17)}),
}


@pytest.mark.parametrize("act", SIMPLE)
def test_what_is_done_behind_the_triggers_is_named(world: World, act: str) -> None:
    statement, expected = SIMPLE[act]
    with tampering(world):
        change(world, statement)
        assert found(world) == expected


def test_the_head_of_an_agent_without_a_history_is_checked(world: World) -> None:
    first = "sha256('lighthouse')"
    with tampering(world):
        change(world, f"insert into heads values ('lighthouse', 0, {first})")
        assert found(world, "lighthouse") == set()
        change(world, "update heads set hash = sha256('') where agent_id = 'lighthouse'")
        assert found(world, "lighthouse") == {("head", 0)}


# -- no false alarm


@pytest.mark.thorough
async def test_a_purge_and_the_erasure_of_a_person_leave_a_whole_chain(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    await tell(clean_db, db)
    ana = identity(session="s1")
    expired = memory("Ana waits for the ferry.")
    await remember(db, ana, expired)
    expire(superuser, expired.id)
    async with administration(clean_db) as opened:
        assert await erasure.purge_expired(opened._database, identity(), timedelta(0)) == [expired.id]
    assert problems(clean_db) == []
    assert len((await erasure.erase(db, ana, ["user:ana"], None)).erased) > 3
    assert problems(clean_db) == []
    count = (
        "select count(*) from mnemic.history_contents where after ->> 'state' <> 'purged' and scope_key = 'user:ana'"
    )
    assert superuser.execute(count).fetchone() == (0,)


@pytest.mark.thorough
async def test_who_checks_while_others_write_sees_one_moment(clean_db: Clone) -> None:
    async with clean_db.database(Settings(pool_size=4)) as db, administration(clean_db) as opened:
        await remember(db, identity())
        found: list[object] = []

        async def write(user: str) -> None:
            for number in range(12):
                await remember(db, identity(user), memory(f"{user} {number}", key=f"user:{user}"))

        async def check() -> None:
            for _ in range(12):
                found.extend(await opened.verify(Identity(agent_id=AGENT)))

        await asyncio.gather(write("ana"), write("bo"), check(), check())
    assert found == []


async def test_the_agents_are_all_that_have_a_trace(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    await remember(db, identity(agent="museum"), memory("Ana paints."))
    await remember(db, identity(agent="harbor"))
    superuser.execute("insert into mnemic.heads values ('abbey', 1, sha256('abbey'))")
    async with administration(clean_db, retention_purge_after_days=1) as opened:
        assert await opened.purge(Identity(agent_id="harbr")) == []  # a name mistyped is no agent from then on
        assert await history.list_agents(opened._database) == ["abbey", "harbor", "museum"]


async def test_a_relation_whose_far_end_the_person_no_longer_sees_is_no_problem(db: Database) -> None:
    mine, own = identity(session="s1"), ["user:ana", "session:s1"]
    inside = identity(session="s1", groups=["yard"])
    yards = memory("The yard is closed.", key="group:yard")
    await remember(db, inside, yards)
    await remember(db, inside, replace(memory("Ana works."), relations=(Relation(to_id=yards.id, strength=0.5),)))
    async with db.transaction(mine) as tx:
        head = await history.read_head(tx)
        assert head
        rows = await history.read_export_rows(tx, own, after=0, last=head.revision)
    assert check_export([header_line("harbor", "ana", own, head), *map(row_line, rows)]).problems == []


# -- what a row is hashed by: every column, in a text that stays the same for ever

#: A row that has something in every column but two.
ROW = (
    '{"agent_id": "harbor", "revision": 7, "op_id": "11111111-1111-1111-1111-111111111111", "event": "UPDATE",'
    ' "memory_id": "22222222-2222-2222-2222-222222222222", "scope_key": "user:Zoë \\"z\\"", "category": "profile",'
    ' "actor": "ana\\\\bo", "actor_kind": "agent", "reason": "formation", "session_id": "s1",'
    ' "refinement_id": "33333333-3333-3333-3333-333333333333",'
    ' "before_digest": "\\\\x00ff", "after_digest": "\\\\x01", "token_delta": -3,'
    ' "meta": {"b": 0.50, "aa": [1, null, "ü"]}, "ts": "2026-03-02T10:00:00.000001+01:00", "prev": "\\\\xabcd"}'
)
TEXT = (
    '["h1", "harbor", 7, "11111111-1111-1111-1111-111111111111", "UPDATE",'
    ' "22222222-2222-2222-2222-222222222222", "user:Zoë \\"z\\"", "profile", "ana\\\\bo", "agent", "formation",'
    ' "s1", null, "33333333-3333-3333-3333-333333333333", null, "00ff", "01", -3,'
    ' {"b": 0.50, "aa": [1, null, "ü"]}, 1772442000000001, "abcd"]'
)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_the_hashed_text_is_this_one_for_ever(superuser: psycopg.Connection, zone: str) -> None:
    """A change of it makes every chain that was ever written look forged: give it another version instead."""
    with superuser.transaction(force_rollback=True):
        superuser.execute("select set_config('timezone', %s, true)", (zone,))
        row = superuser.execute(
            "select mnemic.history_text(h), mnemic.history_hash(h)"
            " from jsonb_populate_record(null::mnemic.history, %s) as h",
            (ROW,),
        ).fetchone()
    assert row == (TEXT, hashlib.sha256(TEXT.encode()).digest())


def test_an_export_names_the_columns_in_the_order_they_are_hashed_in(superuser: psycopg.Connection) -> None:
    names = superuser.execute(
        "select attname from pg_attribute where attrelid = 'mnemic.history'::regclass and attnum > 0"
        " and attname <> 'hash' order by attnum"
    )
    assert [name for (name,) in names.fetchall()] == list(COLUMNS[1:])
