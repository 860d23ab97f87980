"""A hundred thousand memories undone, restored and brought back, while others of the agent write."""

import asyncio
import time
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
from mnemic.state.rollback import RollbackOptions
from mnemic.state.settings import Settings
from mnemic.storage.database import Database
from tests.support.large import load_operation
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, memory, remember

MANY = 100_000
ANA, KEY = identity(), "user:ana"

pytestmark = pytest.mark.slow


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
