"""What rollbacks are tested on: operations one after the other, and the whole database before and after."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from mnemic.memory.governance import rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.state.governance import Rollback, RollbackOptions
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.database import Database
from mnemic.storage.opening import ADMINISTRATION, open_database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.server import Clone
from tests.support.worlds import identity, memory, operate, remember

ANA = identity(session="s1", groups=["crew"])


@pytest.fixture
def person(db: Database) -> Principal:
    """Ana, who governs her own memories."""
    return Principal.person(db, ANA)


@asynccontextmanager
async def administrator_of(clone: Clone, agent_id: str) -> AsyncIterator[Principal]:
    """An administrator of an agent, as the administrators' role."""
    settings = Settings.model_validate({"admin_url": clone.administrator_dsn, "pool_size": 2})
    async with open_database(settings, login=ADMINISTRATION) as database:
        yield Principal.administrator(database, agent_id, "keeper")


@pytest.fixture
async def administrator(clean_db: Clone) -> AsyncIterator[Principal]:
    """An administrator of her agent."""
    async with administrator_of(clean_db, ANA.agent_id) as opened:
        yield opened


@pytest.fixture(params=["person", "administrator"])
def actor(request: pytest.FixtureRequest, person: Principal, administrator: Principal) -> Principal:
    """One after the other."""
    return {"person": person, "administrator": administrator}[request.param]


def owning(db: Database, who: Identity, key: str) -> Principal:
    """Somebody who governs this scope key alone."""
    return Principal(db, who, (key,))


async def undo(actor: Principal, *op_ids: UUID, **options: bool) -> Rollback:
    """Undoes operations as one."""
    return await rollback.undo(actor, op_ids, RollbackOptions(**options))


async def restore(actor: Principal, key: str, moment: object, **options: bool) -> Rollback:
    """Gives a scope key back what it had."""
    return await rollback.restore(actor, key, moment, RollbackOptions(**options))  # type: ignore[arg-type]


async def saved(db: Database, *texts: str, key: str = "user:ana", who: Identity = ANA) -> list[NewMemory]:
    """Memories stored in one operation."""
    new = [memory(text, key=key) for text in texts]
    await remember(db, who, *new)
    return new


async def forgotten(db: Database, *given: NewMemory, who: Identity = ANA) -> None:
    """Soft-deletes memories in one operation."""

    async def act(tx: ScopedTransaction) -> None:
        for item in await memories.list_memories(tx, ["fact"], limit=100):
            if item.id in {new.id for new in given}:
                await memories.forget(tx, item)

    await operate(db, who, act)


def again(new: NewMemory) -> NewMemory:
    """Another memory that says the same."""
    return replace(new, id=memory("").id)


def op_ids(superuser: psycopg.Connection, agent: str = "harbor") -> list[UUID]:
    """All operations of an agent, oldest first."""
    rows = superuser.execute(
        "select op_id from mnemic.history where agent_id = %s group by op_id order by min(revision)", (agent,)
    )
    return [op_id for (op_id,) in rows.fetchall()]


def states(superuser: psycopg.Connection) -> dict[str, str]:
    """What each memory says, and its state."""
    return dict(superuser.execute("select content, state from mnemic.memories order by created_at").fetchall())


def everything(superuser: psycopg.Connection, *, without: Collection[str] = ()) -> dict[str, list[str]]:
    """Every row of every table, but those `without` which it is, and events, which count refused acts too."""
    tables = superuser.execute("select tablename from pg_tables where schemaname = 'mnemic'").fetchall()
    rows = {}
    for (name,) in tables:
        statement = sql.SQL("select to_jsonb(t)::text from {} t order by 1").format(sql.Identifier("mnemic", name))
        rows[name] = [text for (text,) in superuser.execute(statement).fetchall()]
    return {name: found for name, found in rows.items() if name not in {*without, "events"}}
