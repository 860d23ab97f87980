"""What rollbacks are tested on: operations one after the other, and the whole database before and after."""

from dataclasses import replace
from uuid import UUID

import psycopg
from psycopg import sql

from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from mnemic.storage import memories
from mnemic.storage.database import Database, Scoped
from tests.support.worlds import identity, memory, operate, remember

ANA = identity(session="s1", groups=["crew"])


async def saved(db: Database, *texts: str, key: str = "user:ana", who: Identity = ANA) -> list[NewMemory]:
    """Memories stored in one operation."""
    new = [memory(text, key=key) for text in texts]
    await remember(db, who, *new)
    return new


async def forgotten(db: Database, *given: NewMemory, who: Identity = ANA) -> None:
    """Soft-deletes memories in one operation."""

    async def act(scoped: Scoped) -> None:
        for one in await memories.living(scoped, ["fact"], most=100):
            if one.id in {new.id for new in given}:
                await memories.forget(scoped, one)

    await operate(db, who, act)


def again(new: NewMemory) -> NewMemory:
    """Another memory that says the same."""
    return replace(new, id=memory("").id)


def op_ids(superuser: psycopg.Connection, agent: str = "harbor") -> list[UUID]:
    """All operations of an agent, oldest first."""
    rows = superuser.execute(
        "select op_id from mnemic.history where agent_id = %s group by op_id order by min(seq)", (agent,)
    )
    return [op_id for (op_id,) in rows.fetchall()]


def states(superuser: psycopg.Connection) -> dict[str, str]:
    """What each memory says, and its state."""
    return dict(superuser.execute("select content, state from mnemic.memories order by created_at").fetchall())


def everything(superuser: psycopg.Connection) -> dict[str, list[str]]:
    """Every row of every table."""
    tables = superuser.execute("select tablename from pg_tables where schemaname = 'mnemic'").fetchall()
    rows = {}
    for (name,) in tables:
        statement = sql.SQL("select to_jsonb(t)::text from {} t order by 1").format(sql.Identifier("mnemic", name))
        rows[name] = [text for (text,) in superuser.execute(statement).fetchall()]
    return rows
