"""A hundred thousand memories undone, restored and brought back, while others of the agent write."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import quantiles
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mnemic import Administration, Rollback
from mnemic.operations.governance import rollback
from mnemic.operations.governance.actor import Actor
from mnemic.state.governance import RollbackOptions
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL, identity, memory, remember

pytestmark = pytest.mark.slow

#: Each memory rests on a message of its own and on the first of its ten, half of them lie beside another one.
_LOAD = """
insert into agents (agent_id) values (%(agent)s) on conflict do nothing;
insert into sessions (agent_id, session_id, last_activity_at) values (%(agent)s, 's1', now()) on conflict do nothing;
select open_operation(%(agent)s, %(op)s, 'importer', 'agent', 'formation', 's1', null, '{}');
create temporary table loaded on commit drop as
    select number, gen_random_uuid() as id, gen_random_uuid() as message_id,
           format('Ana noted item %%s, %%s, in her garden book.', number, md5(number::text)) as content
      from generate_series(1, %(many)s) as number;
create temporary table directions on commit drop as
    select place, array_agg(random() - 0.5)::halfvec as vec
      from generate_series(0, 99) as place, generate_series(1, %(dimensions)s) group by place;
insert into messages (agent_id, id, session_id, scope_key, place, role, author, user_id, content, said_at, formed_by)
select %(agent)s, message_id, 's1', 'user:ana', number, 'user', 'Ana', 'ana', content, now(), %(op)s from loaded;
insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance, provenance, valid_from,
                      source_session_id)
select %(agent)s, id, 'fact', 'user:ana', 'Ana', 'profile', content, 2, 'asserted', now(), 's1'
  from loaded order by number;
insert into sources (agent_id, memory_id, message_id, scope_key)
select %(agent)s, id, message_id, 'user:ana' from loaded
union
select %(agent)s, l.id, m.message_id, 'user:ana' from loaded l join loaded m on m.number = (l.number - 1) / 10 * 10 + 1;
insert into relations (agent_id, from_id, to_id, relation_type, strength, scope_key, to_scope_key)
select %(agent)s, l.id, n.id, 'related_to', 0.5, 'user:ana', 'user:ana'
  from loaded l join loaded n on n.number = l.number - 1 where l.number %% 2 = 0;
insert into entries (agent_id, scope_key, item_id, kind, category, model, vec, tsv)
select %(agent)s, 'user:ana', i.id, i.kind, 'profile', %(model)s, d.vec, to_tsvector('english', l.content)
  from loaded l join directions d on d.place = l.number %% 100
 cross join lateral (values (l.id, 'fact'), (l.message_id, 'message')) as i(id, kind)
"""


def load_operation(connection: psycopg.Connection, agent: str, many: int, *, dimensions: int = 384) -> uuid.UUID:
    """Ana's memories, with messages, sources, relations and entries; the operation's id."""
    op_id = uuid.uuid4()
    values = {"agent": agent, "op": op_id, "many": many, "model": MODEL, "dimensions": dimensions}
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("set local search_path = mnemic, public")
        for statement in _LOAD.split(";\n"):
            cursor.execute(statement, values)
    connection.execute("vacuum analyze")
    return op_id


MANY = 100_000
ANA, KEY = identity(), "user:ana"


@asynccontextmanager
async def others_write(db: Database, what: str) -> AsyncIterator[list[float]]:
    """Two other users of the agent store a fact every few hundredths of a second; how long each waited is printed."""
    took, is_over = list[float](), asyncio.Event()

    async def write(user: str) -> None:
        who = identity(user)
        while not is_over.is_set():
            began = time.perf_counter()
            await remember(db, who, memory(f"{user} wrote at {began}.", key=f"user:{user}"))
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0.05)

    writers = [asyncio.create_task(write(user)) for user in ("bo", "cleo")]
    began = time.perf_counter()
    try:
        yield took
    finally:
        is_over.set()
        await asyncio.gather(*writers)
    p95 = quantiles(took, n=20)[-1]
    whole = time.perf_counter() - began
    print(f"{what}: {whole:.1f} s; {len(took)} writes of others, p95 {p95 * 1000:.0f} ms, longest {max(took):.2f} s")


@pytest.mark.thorough
async def test_very_many_memories_are_rolled_back_while_others_write(
    clean_db: Clone, superuser: psycopg.Connection
) -> None:
    op_id = await asyncio.to_thread(load_operation, superuser, AGENT, MANY)

    def states() -> dict[str, int]:
        counts = "select state, count(*) from mnemic.memories where scope_key = 'user:ana' group by 1"
        return dict(superuser.execute(counts).fetchall())

    async with clean_db.database(Settings(pool_size=4, statement_timeout_seconds=300)) as db:
        actor, options = Actor.person(db, ANA), RollbackOptions()

        async def undo(op_id: UUID | None) -> Rollback:
            assert op_id
            return await rollback.undo(actor, [op_id], options)

        async with others_write(db, "nothing else"):
            await asyncio.sleep(5)
        async with others_write(db, "undo"):
            undone = await undo(op_id)
        assert (len(undone.changes), states()) == (MANY, {"soft_deleted": MANY})
        async with others_write(db, "undo of the undo"):
            await undo(undone.op_id)
        assert states() == {"active": MANY}
        async with others_write(db, "restore of the beginning"):
            restored = await rollback.restore(actor, KEY, 0, options)
        assert states() == {"soft_deleted": MANY}
        async with others_write(db, "undo of the restore"):
            await undo(restored.op_id)
        assert states() == {"active": MANY}
    patient: dict[str, Any] = {"admin_url": clean_db.administrator_dsn, "statement_timeout_seconds": 1200}
    async with Administration.open(**patient) as administration:
        assert await administration.verify(AGENT) == []
        assert {one.left for one in await administration.operations(AGENT, limit=100_000)} == {0}
