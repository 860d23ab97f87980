"""No false alarm: histories as the product writes them have no problems, whoever writes meanwhile."""

import asyncio
import hashlib
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from mnemic.policy.governance.audit import COLUMNS, check_export, header_line, row_line
from mnemic.state.records import Relation
from mnemic.state.settings import Settings
from mnemic.storage import erasure, history
from mnemic.storage.database import Database
from tests.support.audited import administration, problems, tell
from tests.support.erasing import expire
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, memory, remember


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
        assert await erasure.purge_expired(opened._database, AGENT, "a", timedelta(0)) == [expired.id]
    assert await problems(clean_db) == []
    assert len((await erasure.erase(db, ana, ["user:ana"], None)).erased) > 3
    assert await problems(clean_db) == []
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
                found.extend(await opened.verify(AGENT))

        await asyncio.gather(write("ana"), write("bo"), check(), check())
    assert found == []


async def test_the_agents_are_all_that_have_a_trace(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    await remember(db, identity(agent="museum"), memory("Ana paints."))
    await remember(db, identity(agent="harbor"))
    superuser.execute("insert into mnemic.heads values ('abbey', 1, sha256('abbey'))")
    async with administration(clean_db, retention_purge_after_days=1) as opened:
        assert await opened.purge("harbr") == []  # a name mistyped is no agent from then on
        assert await history.agents(opened._database) == ["abbey", "harbor", "museum"]


async def test_a_relation_whose_far_end_the_person_no_longer_sees_is_no_problem(db: Database) -> None:
    mine, own = identity(session="s1"), ["user:ana", "session:s1"]
    inside = identity(session="s1", groups=["yard"])
    yards = memory("The yard is closed.", key="group:yard")
    await remember(db, inside, yards)
    await remember(db, inside, replace(memory("Ana works."), relations=(Relation(to_id=yards.id, strength=0.5),)))
    async with db.scoped(mine) as scoped:
        head = await history.head(scoped)
        assert head
        rows = await history.exported(scoped, own, after=0, last=head.seq)
    assert check_export([header_line("harbor", "ana", own, head), *map(row_line, rows)]).problems == []


# -- what a row is hashed by: every column, in a text that stays the same for ever

#: A row that has something in every column, and one that has nothing where nothing may stand.
FULL = (
    '{"agent_id": "harbor", "seq": 7, "op_id": "11111111-1111-1111-1111-111111111111", "event": "UPDATE",'
    ' "memory_id": "22222222-2222-2222-2222-222222222222", "scope_key": "user:Zoë \\"z\\"", "category": "profile",'
    ' "actor": "ana\\\\bo", "actor_kind": "agent", "reason": "formation", "session_id": "s1", "run_id": "r1",'
    ' "refinement_id": "33333333-3333-3333-3333-333333333333", "undo_of": "44444444-4444-4444-4444-444444444444",'
    ' "before_digest": "\\\\x00ff", "after_digest": "\\\\x01", "token_delta": -3,'
    ' "meta": {"b": 0.50, "aa": [1, null, "ü"]}, "ts": "2026-03-02T10:00:00.000001+01:00", "prev": "\\\\xabcd"}'
)
BARE = (
    '{"agent_id": "harbor", "seq": 1, "op_id": "11111111-1111-1111-1111-111111111111", "event": "ADD", "actor": "a",'
    ' "actor_kind": "agent", "reason": "formation", "token_delta": 0, "meta": {}, "ts": "1970-01-01T00:00:00Z",'
    ' "prev": "\\\\x00"}'
)
VECTORS = {
    FULL: '["h1", "harbor", 7, "11111111-1111-1111-1111-111111111111", "UPDATE",'
    ' "22222222-2222-2222-2222-222222222222", "user:Zoë \\"z\\"", "profile", "ana\\\\bo", "agent", "formation",'
    ' "s1", "r1",'
    ' "33333333-3333-3333-3333-333333333333", "44444444-4444-4444-4444-444444444444", "00ff", "01", -3,'
    ' {"b": 0.50, "aa": [1, null, "ü"]}, 1772442000000001, "abcd"]',
    BARE: '["h1", "harbor", 1, "11111111-1111-1111-1111-111111111111", "ADD", null, null, null, "a", "agent",'
    ' "formation", null, null, null, null, null, null, 0, {}, 0, "00"]',
}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("row", VECTORS)
def test_the_hashed_text_is_this_one_for_ever(superuser: psycopg.Connection, row: str, zone: str) -> None:
    """A change of it makes every chain that was ever written look forged: give it another version instead."""
    with superuser.transaction(force_rollback=True):
        superuser.execute("select set_config('timezone', %s, true)", (zone,))
        text, row_hash = superuser.execute(
            "select mnemic.history_text(h), mnemic.history_hash(h)"
            " from jsonb_populate_record(null::mnemic.history, %s) as h",
            (row,),
        ).fetchone() or ("", b"")
    assert text == VECTORS[row]
    assert row_hash == hashlib.sha256(VECTORS[row].encode()).digest()


def test_an_export_names_the_columns_in_the_order_they_are_hashed_in(superuser: psycopg.Connection) -> None:
    names = superuser.execute(
        "select attname from pg_attribute where attrelid = 'mnemic.history'::regclass and attnum > 0"
        " and attname <> 'hash' order by attnum"
    )
    assert [name for (name,) in names.fetchall()] == list(COLUMNS[1:])
