"""Many memories are erased and rolled back in steps, which hold nobody up, and go on where they were broken off."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import psycopg
import pytest

from mnemic.memory.governance import rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.state.governance import RollbackOptions
from mnemic.state.settings import Settings
from mnemic.storage import erasure
from mnemic.storage.database import Database
from tests.support.erasing import ANA, CANARY, World, places, problems
from tests.support.erasing import world as world
from tests.support.server import Clone
from tests.support.worlds import identity, memory, remember

KEYS = ["user:ana"]
MANY = pytest.mark.parametrize(
    "many", [pytest.param(1_200, marks=pytest.mark.thorough), pytest.param(100_000, marks=pytest.mark.slow)]
)
#: Memories of Ana's, each with a message and an entry, one in ten superseded by the next, one in a thousand an episode.
GROW = """
select open_operation('harbor', gen_random_uuid(), 'ana', 'agent', 'formation', 's1', null, '{{}}');
create temp table grown as
select n, gen_random_uuid() as id, gen_random_uuid() as said, gen_random_uuid() as run
  from generate_series({first}, {last}) as n;
insert into messages (agent_id, id, session_id, scope_key, place, role, author, user_id, content, said_at, formed_by)
select 'harbor', said, 's' || n / 100, 'user:ana', n, 'user', 'Ana', 'ana', 'I keep {canary} ' || n, now(), run
  from grown;
insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance, provenance, valid_from)
select 'harbor', id, case when n % 1000 = 0 then 'episode' else 'fact' end, 'user:ana', 'Ana', 'profile',
       'Ana keeps {canary} ' || n, 3, 'asserted', now() from grown;
insert into entries (agent_id, scope_key, item_id, kind, category, model, tsv)
select 'harbor', 'user:ana', i, k, 'profile', '', to_tsvector('english', '{canary} ' || n)
  from grown
 cross join lateral (values (id, case when n % 1000 = 0 then 'episode' else 'fact' end), (said, 'message')) as e(i, k);
insert into sources select 'harbor', id, said, 'user:ana' from grown;
insert into relations (agent_id, from_id, to_id, strength, scope_key, to_scope_key)
select 'harbor', g.id, x.id, 0.5, 'user:ana', 'user:ana' from grown g join grown x on x.n = g.n + 1 where g.n % 2 = 0;
update memories m set state = 'superseded', superseded_by = x.id
  from grown g join grown x on x.n = g.n + 1 where g.n % 10 = 0 and m.agent_id = 'harbor' and m.id = g.id;
drop table grown;
"""


async def grow(db: Database, clone: Clone, many: int) -> None:
    """So many memories of Ana's, beside one of Bo's."""
    await remember(db, identity("bo"), memory("Bo sails.", key="user:bo"))
    with clone.as_superuser() as owner:
        owner.execute(f'grant temporary on database "{clone.name}" to mnemic_owner'.encode())
        owner.execute("set role mnemic_owner; set search_path = mnemic, public")
        session = "insert into sessions (agent_id, session_id, last_activity_at) select 'harbor', 's' || n, now()"
        owner.execute(f"{session} from generate_series(0, {many // 100}) as n".encode())
        for first in range(0, many, 2000):
            part = GROW.format(first=first, last=min(first + 2000, many) - 1, canary=CANARY)
            with owner.transaction():
                owner.execute(part.encode())


@asynccontextmanager
async def others_writing(clone: Clone, waits: list[float]) -> AsyncIterator[None]:
    """Bo is remembered, again and again, as fast as it goes."""

    async def write() -> None:
        async with clone.database() as db:
            for number in range(1_000_000):
                began = time.perf_counter()
                await remember(db, identity("bo"), memory(f"Bo sails {number}.", key="user:bo"))
                waits.append(time.perf_counter() - began)
                await asyncio.sleep(0.01)

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


@MANY
async def test_a_person_of_many_memories_is_erased_while_others_write(
    db: Database, clean_db: Clone, superuser: psycopg.Connection, many: int
) -> None:
    await grow(db, clean_db, many)
    waits: list[float] = []
    async with others_writing(clean_db, waits):
        done = await erasure.erase(db, ANA, KEYS, None)
    assert (len(done.erased), done.messages, done.left) == (many, many, 0)
    assert places(superuser) == set()
    assert superuser.execute("select count(*) from mnemic.erasing").fetchone() == (0,)
    living = superuser.execute("select distinct scope_key from mnemic.memories where state <> 'purged'").fetchall()
    assert living == [("user:bo",)]
    assert problems(clean_db) == []
    waits.sort()
    print(f"{len(waits)} writes of others: p95 {waits[len(waits) * 95 // 100]:.3f} s, longest {waits[-1]:.3f} s")


@MANY
async def test_many_memories_are_rolled_back_while_others_write(
    clean_db: Clone, superuser: psycopg.Connection, many: int
) -> None:
    def counted() -> dict[str, int]:
        counts = "select state, count(*) from mnemic.memories where scope_key = 'user:ana' group by 1"
        return dict(superuser.execute(counts).fetchall())

    async with clean_db.database(Settings(pool_size=4, statement_timeout_seconds=300)) as db:
        await grow(db, clean_db, many)
        superuser.execute("vacuum analyze")
        person, options, before, waits = Principal.person(db, ANA), RollbackOptions(), counted(), list[float]()
        async with others_writing(clean_db, waits):
            undone = await rollback.undo(person, None, options, session_id="s1", since=datetime(2000, 1, 1, tzinfo=UTC))
            assert (len(undone.changes), counted()) == (many, {"soft_deleted": many})
            assert undone.op_id
            await rollback.undo(person, [undone.op_id], options)
            assert counted() == before
            restored = await rollback.restore(person, KEYS[0], 0, options)
            assert counted() == {"soft_deleted": many}
            assert restored.op_id
            await rollback.undo(person, [restored.op_id], options)
            assert counted() == before
        assert {item.left for item in await rollback.operations(person, limit=100_000)} == {0}
    print(f"{len(waits)} writes of others, the longest {max(waits):.3f} s")
    assert problems(clean_db) == []


class KilledError(Exception):
    """As if the process ended there."""


@pytest.mark.parametrize(
    "ids", [pytest.param(True, marks=pytest.mark.thorough), False], ids=["by their ids", "a person"]
)
async def test_an_erasure_that_was_broken_off_goes_on(world: World, ids: bool) -> None:
    db, clean_db, superuser = world
    await grow(db, clean_db, 900)
    every = [item for (item,) in superuser.execute("select id from mnemic.memories where scope_key = 'user:ana'")]

    def killed(_: int, left: int) -> None:
        if left < 1_000:
            raise KilledError

    with pytest.raises(KilledError):
        await erasure.erase(db, ANA, KEYS, every if ids else None, killed)
    erased = superuser.execute("select count(*) from mnemic.messages where content is null").fetchone()
    assert erased == (900,)
    assert superuser.execute("select count(*) from mnemic.erasures").fetchone() == (1,)
    assert world.places() > set()
    done = await erasure.erase(db, ANA, KEYS, every[:1] if ids else None)
    assert done.goes_on_from
    assert done.left == 0
    assert {*world.states(*every)} == {"purged"}
    assert world.places() == set()
    assert superuser.execute("select count(*) from mnemic.erasures").fetchone() == (0,)
    assert (await erasure.erase(db, ANA, KEYS, None)).goes_on_from is None


@pytest.mark.thorough
async def test_sources_of_memories_are_looked_up_by_index_without_statistics(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    """Statistics of one table alone, as they come while many are stored, must not have all rows of another one read."""
    await grow(db, clean_db, 900)
    superuser.execute("analyze mnemic.history")
    some = "(select id from mnemic.memories where state = 'active' limit 10) as m"
    reads = "select idx_tup_fetch from pg_stat_xact_user_tables where relname = 'history_contents'"
    with superuser.transaction():
        superuser.execute(f"select mnemic.source_memories('harbor', id) from {some}".encode())
        read = superuser.execute(reads.encode()).fetchone()
    assert read
    assert read[0] <= 10 * 90  # so many were superseded beside each of them
