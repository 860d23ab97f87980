"""Row-level security, table by table: what belongs to others is not there, and cannot be written to; its habits."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import psycopg
import pytest

from mnemic.state.errors import RefusedError
from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind, Usage
from mnemic.state.query import MemoryQuery
from mnemic.state.records import IndexedText, Relation, ScopeSettings
from mnemic.storage import history, inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.rollbacks import owning, undo
from tests.support.searching import searched
from tests.support.server import Clone
from tests.support.wheel import ROOMS, ROOT
from tests.support.worlds import MODEL, direction, identity, memory, message, operate, remember

#: Tables, with the column that says whose a row is.
TABLES = {
    "agents": "agent_id",
    "scopes": "scope_key",
    "sessions": "'session:' || session_id",
    "messages": "scope_key",
    "memories": "scope_key",
    "sources": "scope_key",
    "entries": "scope_key",
    "history": "scope_key",
    "history_contents": "scope_key",
    "token_usage": "agent_id",
}

ANA = identity("ana", groups=["pier"], session="s-ana")
BOB = identity("bob", groups=["yard"], session="s-bob")
ANA_ELSEWHERE = identity("ana", agent="museum", groups=["pier"], session="s-ana")
PEOPLE = [ANA, BOB, ANA_ELSEWHERE]


async def live_a_little(db: Database, who: Identity) -> None:
    """One row or more in every table and for every scope key of an identity."""
    assert who.session_id
    said = message(f"I am {who.user_id} at {who.agent_id}", session=who.session_id, user=who.user_id)
    async with db.transaction(who) as tx:
        await inbox.observe(tx, who.session_id, [said])
        op_id = await tx.begin_operation("formation")
        kinds: dict[str, Kind] = {key: "episode" if key.startswith("session") else "fact" for key in who.scope_keys}
        new = [memory(f"{key} is known", key=key, sources=[said], kind=kind) for key, kind in kinds.items()]
        await memories.insert(tx, new, model=MODEL, vectors={item.id: direction(0) for item in new}, run_id=None)
        await inbox.settle(tx, op_id, [said], read_revision=0)
        await inbox.index_messages(tx, MODEL, [IndexedText(item_id=said.id, text=said.content, vector=direction(0))])
        for key in who.scope_keys:
            await scopes.configure_scope(tx, ScopeSettings(scope_key=key, name=key))
        await scopes.record_usage(tx, Usage(step="save", model="m", calls=1))


@pytest.fixture
async def world(db: Database) -> Database:
    for who in PEOPLE:
        await live_a_little(db, who)
    return db


async def owners(tx: ScopedTransaction, table: str) -> set[tuple[str, str]]:
    """The agents and owners of all rows that the transaction sees in a table, without any condition."""
    cursor = await tx.execute(f"select distinct agent_id, {TABLES[table]} from {table}", {})
    return {(row[0], row[1]) for row in await cursor.fetchall()}


def own(who: Identity, table: str) -> set[tuple[str, str]]:
    keys = {"agents": (who.agent_id,), "token_usage": (who.agent_id,), "sessions": (f"session:{who.session_id}",),
            "messages": (f"user:{who.user_id}",)}  # fmt: skip
    return {(who.agent_id, key) for key in keys.get(table, who.scope_keys)}


@pytest.mark.parametrize("table", TABLES)
async def test_a_bare_select_sees_the_own_rows_and_no_others(world: Database, table: str) -> None:
    for who in PEOPLE:
        async with world.transaction(who) as tx:
            expected = own(who, table)
            seen = await owners(tx, table)
            if table == "entries":  # and those of the own kept message
                expected |= {(who.agent_id, f"user:{who.user_id}")}
            assert seen == expected


@pytest.mark.thorough
async def test_without_the_policy_the_same_select_shows_everybodys_rows(fresh_db: Clone) -> None:
    async with fresh_db.database() as db:
        for who in PEOPLE:
            await live_a_little(db, who)
        for table in TABLES.keys() - {"agents", "token_usage"}:
            with fresh_db.as_superuser() as connection:
                connection.execute(f"alter table mnemic.{table} disable row level security")
            async with db.transaction(ANA) as tx:
                seen = await owners(tx, table)
            assert own(BOB, table) < seen, table
            assert own(ANA_ELSEWHERE, table) < seen, table


async def test_every_read_returns_the_rows_of_the_transaction_scope_alone(world: Database) -> None:
    every = sorted({key for who in PEOPLE for key in who.scope_keys})
    request = MemoryQuery(query="What is known?", top_k=50)
    for who, also, expected in (
        (identity("ana"), (), {"agent:harbor", "user:ana"}),
        (ANA, (), {*ANA.scope_keys}),
        (ANA, ("user:bob",), {*ANA.scope_keys, "user:bob"}),
        (ANA_ELSEWHERE, (), {*ANA_ELSEWHERE.scope_keys}),
    ):
        async with world.transaction(who, also=also) as tx:
            living = await memories.list_memories(tx, ["fact", "episode"], limit=50)
            similar = await memories.find_nearest(tx, every, [direction(0)] * len(every), model=MODEL, limit=50)
            found = await searched(tx, request, direction(0), ["profile"])
        assert {item.scope_key for item in living} == {item.scope_key for item in found} == expected
        assert {item.id for item in similar} == {item.id for item in living if item.kind == "fact"}


NEW_MEMORY = (
    "insert into memories (agent_id, scope_key, id, kind, subject, category, content, importance,"
    " provenance, valid_from)"
    " select {}, {}, gen_random_uuid(), 'fact', 'Bob', 'profile', 'x', 2, 'asserted', now()"
)
#: Inserts of a row that belongs to Bob, Bob's group, his session or another agent.
FOREIGN_INSERTS = [
    "insert into scopes (agent_id, scope_key) values ('harbor', 'group:none')",
    "insert into scopes (agent_id, scope_key) values ('museum', 'user:ana')",
    "insert into agents (agent_id) values ('quay')",
    "insert into sessions (agent_id, session_id, last_activity_at) values ('harbor', 's-new', now())",
    "insert into messages (agent_id, id, session_id, scope_key, place, role, author, said_at)"
    " values ('harbor', gen_random_uuid(), 's-bob', 'user:bob', 1, 'user', 'Bob', now())",
    NEW_MEMORY.format("'harbor'", "'user:bob'"),
    NEW_MEMORY.format("'museum'", "'user:ana'"),
    "insert into entries (agent_id, scope_key, item_id, kind, category, model, tsv)"
    " values ('harbor', 'user:bob', gen_random_uuid(), 'fact', 'profile', '', '')",
    "insert into sources (agent_id, memory_id, message_id, scope_key)"
    " values ('harbor', gen_random_uuid(), gen_random_uuid(), 'group:yard')",
    "insert into relations (agent_id, from_id, to_id, strength, scope_key, to_scope_key)"
    " values ('harbor', gen_random_uuid(), gen_random_uuid(), 1, 'user:ana', 'user:bob')",
    "insert into token_usage values ('museum', now(), 's', 'm', 1, 1, 1)",
    "insert into events (agent_id, node, op, status, ts) values ('museum', 'worker', 'x', 'ok', now())",
]


@pytest.mark.parametrize("statement", FOREIGN_INSERTS)
async def test_a_row_for_a_foreign_scope_key_is_refused(world: Database, statement: str) -> None:
    with pytest.raises(RefusedError, match="row-level security"):
        await operate(world, ANA, lambda tx: tx.execute(statement, {}))


async def test_a_foreign_row_is_not_changed_and_an_own_one_not_given_away(
    world: Database, superuser: psycopg.Connection
) -> None:
    foreign = "select md5(string_agg(m::text, '' order by id)) from mnemic.memories m where scope_key like '%bob'"
    before = superuser.execute(foreign).fetchone()
    async with world.transaction(ANA) as tx:
        await tx.begin_operation("formation")
        cursor = await tx.execute("update memories set content = 'taken' where scope_key like '%%bob%%'", {})
        assert cursor.rowcount == 0
        cursor = await tx.execute("delete from entries where scope_key = 'user:bob'", {})
        assert cursor.rowcount == 0
    assert superuser.execute(foreign).fetchone() == before
    for table in ("scopes", "entries", "messages"):
        with pytest.raises(RefusedError, match="row-level security"):
            async with world.transaction(identity("ana")) as tx:
                await tx.execute(f"update {table} set scope_key = 'user:bob' where scope_key = 'user:ana'", {})


async def test_another_users_twin_is_neither_revealed_nor_lost(db: Database) -> None:
    for who in (identity("ana"), identity("bob")):
        twin = memory("The ferry leaves at nine.", key=f"user:{who.user_id}")
        assert await remember(db, who, twin) == {twin.id}


async def has_a_past(db: Database, keys: Sequence[str]) -> set[str]:
    """Of which scope keys Ana is told when something last happened."""
    async with db.transaction(ANA) as tx:
        return {key for key in keys if await history.revision_of(tx, key, datetime.max.replace(tzinfo=UTC))}


async def test_when_something_happened_to_others_is_not_told(world: Database) -> None:
    assert await has_a_past(world, [*ANA.scope_keys, *BOB.scope_keys]) == {*ANA.scope_keys}


async def test_without_row_security_the_same_look_up_would_tell_it(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute("alter table mnemic.history disable row level security")
    async with fresh_db.database() as db:
        await live_a_little(db, BOB)
        assert await has_a_past(db, ["user:bob"]) == {"user:bob"}


async def told_of_a_relation(db: Database) -> tuple[str, list[str], list[str]]:
    """The id that Ana's memory is related to; what history tells in the group that has it, and what outside of it."""
    inside = identity("ana", groups=["yard"])
    yards = memory("The yard is closed.", key="group:yard")
    related = replace(memory("Ana works."), relations=(Relation(to_id=yards.id, strength=0.5),))
    await remember(db, inside, yards)
    await remember(db, inside, related)
    async with db.transaction(inside) as tx:  # once it was made, once it went
        ((op_id,),) = await tx.tuples("select op_id from history where agent_id = %(agent_id)s and event = 'LINK'", {})
    await undo(owning(db, inside, "user:ana"), op_id)
    return str(yards.id), await contents_told(db, inside), await contents_told(db, identity("ana"))


async def contents_told(db: Database, who: Identity) -> list[str]:
    async with db.transaction(who) as tx:
        rows = await tx.tuples("select c::text from history_contents c where scope_key = 'user:ana'", {})
    return [text for (text,) in rows]


async def test_history_tells_of_a_relation_who_may_see_both_its_ends(db: Database) -> None:
    far_end, inside, outside = await told_of_a_relation(db)
    assert [far_end in text and "group:yard" in text for text in inside].count(True) == 2
    assert outside
    assert not [text for text in outside if far_end in text or "group:yard" in text]


@pytest.mark.thorough
async def test_control_without_the_far_end_policy_history_reveals_a_relation(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as connection:
        rows = connection.execute("select qual from pg_policies where tablename = 'history_contents'").fetchall()
        assert sum("to_scope_key" in qual for (qual,) in rows) == 1
        connection.execute(
            "alter policy service on mnemic.history_contents using (agent_id = current_setting('mnemic.agent_id')"
            " and scope_key = any(current_setting('mnemic.scope_keys')::text[]))"
        )
    async with fresh_db.database() as db:
        far_end, _, outside = await told_of_a_relation(db)
    assert [far_end in text for text in outside].count(True) == 2


#: The last argument of a call, which may hold calls itself.
_SET_CONFIG = re.compile(r"set_config\((?:[^()]|\([^()]*\))*,\s*(\w+)\s*\)")
_SET = re.compile(r"\bset\s+(?:session\s|mnemic\.)", re.IGNORECASE)


def lasting_settings(text: str) -> list[str]:
    """What sets something beyond the transaction."""
    lasting = [call.group() for call in _SET_CONFIG.finditer(text) if call.group(1) != "true"]
    return lasting + [found.group() for found in _SET.finditer(text)]


def sources() -> Iterator[tuple[str, str]]:
    """Every file of code by its path, but what has no scope to lose: one's own connection of an administrator."""
    for room in ROOMS.values():
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".py", ".sql") and path.name != "migrate.py":
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_no_setting_outlives_its_transaction() -> None:
    found = {path: lasting for path, text in sources() if (lasting := lasting_settings(text))}
    assert found == {}
    assert lasting_settings("select set_config('mnemic.agent_id', coalesce(p_agent, ''), false)")
    assert lasting_settings("set mnemic.scope_keys = 'user:ana'")


def test_connections_are_taken_from_the_pool_in_one_place() -> None:
    taken = re.compile(r"\.connection\(|\.getconn\(")
    assert [path for path, text in sources() for _ in taken.findall(text)] == ["storage/database.py"]


def test_only_storage_knows_the_checkpointers_library() -> None:
    assert {path.partition("/")[0] for path, text in sources() if "checkpoint.postgres" in text} == {"storage"}
