"""An agent's history with every kind of operation in it, and how to look at it as an administrator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg

from mnemic.memory.governance import rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.service.governance.administration import Administration
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory, Relation, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import erasure, memories
from mnemic.storage.database import Database
from tests.support.erasing import forget, form
from tests.support.rollbacks import restore, undo
from tests.support.server import Clone
from tests.support.worlds import AGENT, MORNING, direction, identity, memory, message, remember

ME = identity(session="s1")
MINE = ("user:ana", "session:s1")
KEY = "a secret of the tests' own"
#: The rows that `tell` leaves, by what happened; the relation's is LINK.
EVENTS = (
    "ADD", "ADD", "LINK", "SUPERSEDE", "ADD", "ADD", "ABSORB", "PROTECT", "RESTORE", "ADD", "DELETE", "ERASE", "ADD",
    "DELETE", "ADD", "UNPROTECT", "ADD",
)  # fmt: skip


@dataclass(frozen=True)
class Story:
    """The memories of `tell`."""

    porto: UUID
    lisbon: UUID
    reflection: UUID
    consolidation: UUID
    erased: UUID
    bike: UUID
    shared: UUID
    newest: UUID


@asynccontextmanager
async def administration(clone: Clone, *, key: str | None = KEY, **settings: Any) -> AsyncIterator[Administration]:
    """As `Administration.open` makes it, with a key for anchors."""
    given = settings if key is None else {"anchor_key": key, **settings}
    async with Administration.open(
        admin_url=clone.administrator_dsn, settings=Settings(pool_size=2, **given)
    ) as opened:
        yield opened


async def tell(clone: Clone, db: Database) -> Story:
    """Does something of everything, so that the history has these `EVENTS`."""
    me = Principal.person(db, ME)
    porto, lisbon, reflection, consolidation, shared, newest = await _formed(db)
    _protect(clone, consolidation.id, True)
    superseding = next(item for item in await rollback.operations(me, limit=99) if item.first_revision == 4)
    await undo(me, superseding.id)
    erased = await _keep(db, "Ana's locker is number nine.")
    await forget(db, erased)
    await erasure.erase(db, ME, MINE, [erased])
    bike = await _keep(db, "Ana rides a bike.")
    await restore(me, "user:ana", 12)
    await remember(db, ME, shared)
    _protect(clone, consolidation.id, False)
    await remember(db, identity("bo"), newest)
    return Story(porto.id, lisbon.id, reflection.id, consolidation.id, erased, bike, shared.id, newest.id)


async def _formed(db: Database) -> list[NewMemory]:
    porto = memory("Ana lives in Porto.")
    lisbon = replace(memory("Ana lives in Lisbon."), relations=(Relation(to_id=porto.id, strength=0.7),))
    reflection = memory("Ana moves often.", kind="reflection")
    consolidation = memory("Ana is a traveller.", kind="consolidation")
    shared, newest = memory("The ferry leaves at nine.", key="agent:harbor"), memory("Bo sings.", key="user:bo")
    await remember(db, ME, porto, vectors={porto.id: direction(0)})
    await remember(db, ME, lisbon, vectors={lisbon.id: direction(9)})
    async with db.transaction(ME) as tx:
        await tx.begin_operation("formation", run_id="run-7", meta={"kept_share": 0.95, "note": "ü"})
        change = Supersession(old_id=porto.id, old_version=1, new_id=lisbon.id, until=MORNING)
        await memories.supersede(tx, [change])
    await remember(db, ME, reflection)
    async with db.transaction(ME) as tx:
        await tx.begin_operation("consolidation")
        await memories.insert(tx, [consolidation], model="", vectors={}, run_id=None)
        await memories.absorb(tx, consolidation.id, [reflection.id])
    return [porto, lisbon, reflection, consolidation, shared, newest]


async def _keep(db: Database, text: str) -> UUID:
    """A fact with a source."""
    said = message(text)
    new = memory(text, sources=[said])
    await form(db, ME, [said], new)
    return new.id


def _protect(clone: Clone, memory_id: UUID, protected: bool) -> None:
    """From a session that shows times and dates in its own way."""
    with clone.as_role("mnemic_admin") as admin:
        admin.execute(
            "set timezone = 'Asia/Kathmandu'; set datestyle = 'German, DMY'; set intervalstyle = 'sql_standard'"
        )
        call = "select mnemic.set_protection(%s, %s, %s, 'the administrator')"
        assert admin.execute(call, (AGENT, memory_id, protected)).fetchone() == (True,)


def tampered(superuser: psycopg.Connection, *statements: str) -> None:
    """What a superuser can do with every trigger off; each statement has to change something."""
    with superuser.transaction():
        superuser.execute("set local session_replication_role = replica")
        superuser.execute("set local search_path = mnemic")
        superuser.execute("set local timezone = 'UTC'")
        for statement in statements:
            cursor = superuser.execute(statement.encode())
            assert cursor.rowcount, statement


#: The newest row gone as if it had never been, and the head set back.
CUT = (
    "delete from history where agent_id = 'harbor' and revision = 17",
    "delete from history_contents where agent_id = 'harbor' and revision = 17",
    "delete from memories where scope_key = 'user:bo'",
    "update heads set (revision, hash) ="
    " (select revision, hash from history where agent_id = 'harbor' and revision = 16)"
    " where agent_id = 'harbor'",
)
#: As whoever owns the database can: every row written anew, each with a hash that fits, and the head after it.
REBUILT = """
do $$
declare
    h    history;
    last bytea := sha256(convert_to('harbor', 'UTF8'));
begin
    for h in select * from history where agent_id = 'harbor' order by revision loop
        h.prev := last;
        last := history_hash(h);
        update history set prev = h.prev, hash = last where agent_id = h.agent_id and revision = h.revision;
    end loop;
    update heads set hash = last where agent_id = 'harbor';
end $$
"""


def person(user: str = "ana") -> Identity:
    """A person's own view."""
    return identity(user, session="s1" if user == "ana" else None).model_copy(update={"role": "owner"})


def assert_chain_is_whole(superuser: psycopg.Connection, agent: str) -> None:
    """The audit finds nothing; entries apart, which a test that inserts rows by itself does not make."""
    superuser.execute("select set_config('mnemic.agent_id', %s, false)", (agent,))
    assert superuser.execute("select * from mnemic.audit_problems() where problem <> 'entry'").fetchall() == []
