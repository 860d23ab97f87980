"""Formations stored the short way, erasures of them, and what is left afterwards, seen from behind the policies."""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import psycopg
import pytest
from psycopg import sql

from mnemic.state.identity import Identity
from mnemic.state.records import IndexedText, Message, NewMemory
from mnemic.storage import erasure, inbox, memories, scopes
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.mutating import mutate
from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL, direction, identity

ANA = identity(session="s1")
MINE = ["user:ana", "session:s1"]
#: A word that the text index keeps as it is.
CANARY = "quokka"


async def form(
    db: Database, who: Identity, said: Sequence[Message], *new: NewMemory, also: Sequence[str] = ()
) -> uuid.UUID:
    """One formation: the messages are settled and kept, the memories stored; its operation."""
    async with db.transaction(who, also=also) as tx:
        return await form_within(tx, said, *new)


async def form_within(tx: ScopedTransaction, said: Sequence[Message], *new: NewMemory) -> uuid.UUID:
    """The same as part of a transaction."""
    await scopes.ensure_agent(tx)
    await inbox.observe(tx, said[0].session_id, said)
    op_id = await tx.begin_operation("formation")
    await inbox.settle(tx, op_id, said, read_revision=(await scopes.read_snapshot(tx))[1])
    vectors = {item.id: direction(place * 7) for place, item in enumerate(new)}
    await memories.insert(tx, new, model=MODEL, vectors=vectors, run_id=None)
    pieces = [(item, piece) for item in said for piece in (0, 1)]
    texts = [IndexedText(item_id=item.id, piece=n, text=item.content, vector=direction(n)) for item, n in pieces]
    await inbox.index_messages(tx, MODEL, texts)
    return op_id


async def erase(db: Database, *ids: uuid.UUID, who: Identity = ANA, keys: Sequence[str] = MINE) -> list[uuid.UUID]:
    return [*(await erasure.erase(db, who, keys, ids)).erased]


async def erase_person(db: Database, *, user: str = "ana") -> set[uuid.UUID]:
    done = await erasure.erase(db, ANA, [f"user:{user}"], None)
    assert done.left == 0
    return {*done.erased}


async def forget(db: Database, memory_id: uuid.UUID) -> None:
    """As a person does."""
    async with db.transaction(ANA) as tx:
        await tx.begin_operation("forget")
        known = await memories.find(tx, memory_id)
        assert known
        await memories.forget(tx, known)


def expire(superuser: psycopg.Connection, *ids: uuid.UUID, agent: str = AGENT) -> None:
    """As if time had closed these; the service's role cannot say that it did."""
    begin = "select mnemic.open_operation(%s, gen_random_uuid(), 'time', 'agent', 'ttl', null, null, '{}')"
    close = (
        "update mnemic.memories set state = 'soft_deleted', superseded_by = null where agent_id = %s and id = any(%s)"
    )
    with superuser.transaction():
        superuser.execute(begin, (agent,))
        superuser.execute(close, (agent, list(ids)))


def places(superuser: psycopg.Connection, text: str = CANARY) -> set[str]:
    """The tables in which it still stands."""
    names = [name for (name,) in superuser.execute("select tablename from pg_tables where schemaname = 'mnemic'")]
    query = "select count(*) from mnemic.{} t where t::text ilike %s"
    found = {n: superuser.execute(sql.SQL(query).format(sql.Identifier(n)), (f"%{text}%",)).fetchone() for n in names}
    return {name for name, row in found.items() if row != (0,)}


def problems(clone: Clone, agent: str = AGENT) -> list[tuple[object, ...]]:
    """What the audit finds wrong."""
    with clone.as_role("mnemic_admin") as admin:
        admin.execute("select set_config('mnemic.agent_id', %s, false)", (agent,))
        return admin.execute("select * from audit_problems()").fetchall()


class World(NamedTuple):
    """A database as the service uses it, and as it is seen from behind the policies."""

    db: Database
    clone: Clone
    superuser: psycopg.Connection

    def states(self, *ids: uuid.UUID) -> list[str]:
        rows = self.superuser.execute("select id, state from mnemic.memories where agent_id = %s", (AGENT,)).fetchall()
        known: dict[uuid.UUID, str] = dict(rows)
        return [known[memory_id] for memory_id in ids]

    def told(self, messages: Iterable[Message]) -> list[Message]:
        """Those of the messages that still say something."""
        query = "select id from mnemic.messages where content is not null and author <> ''"
        rows = self.superuser.execute(query).fetchall()
        return [item for item in messages if (item.id,) in rows]

    def places(self) -> set[str]:
        return places(self.superuser)

    def problems(self) -> list[tuple[object, ...]]:
        return problems(self.clone)


@pytest.fixture
def world(db: Database, clean_db: Clone, superuser: psycopg.Connection) -> Iterator[World]:
    """The worker's database without a row; whatever is erased in it, the audit finds nothing wrong afterwards."""
    opened = World(db, clean_db, superuser)
    yield opened
    assert opened.problems() == []


#: The test that shows a rule, the function that keeps it, its text, what stands there without it.
Rule = tuple[Callable[[World], Awaitable[None]], str, str, str]


async def assert_is_needed(clone: Clone, rule: Rule, *errors: type[Exception], match: str | None = None) -> None:
    """The control: without its rule a test fails, with an assertion or one of these errors."""
    shown_by, function, text, wrong = rule
    with clone.as_superuser() as superuser:
        mutate(superuser, function, text, wrong)
        async with clone.database() as db:
            with pytest.raises((AssertionError, *errors), match=match):
                await shown_by(World(db, clone, superuser))
