"""How Postgres reads a session's changes under row-level security: of 100,000 foreign ones none is touched."""

from collections.abc import AsyncIterator, Iterator
from typing import LiteralString

import pytest

from mnemic.storage import revisions
from mnemic.storage.database import Database
from tests.storage.test_plans import Explaining, touched
from tests.support.server import Clone, Server, cloned
from tests.support.worlds import AGENT, identity

#: 100,000 rows take seconds to make.
pytestmark = pytest.mark.thorough
ANA = identity("ana", groups=["crew"], session="s1")
FOREIGN = 100_000
VISIBLE = 60


@pytest.fixture(scope="module")
def busy(server: Server, template: str) -> Iterator[Clone]:
    """An agent with 100,000 memories of other users, each with its change, and a few of Ana's among them."""
    with cloned(server, template) as clone, clone.as_superuser() as connection:
        with connection.transaction():
            connection.execute("set local session_replication_role = replica")  # the triggers would take minutes
            for statement in _BUSY:
                connection.execute(statement, {"agent": AGENT, "each": FOREIGN // VISIBLE, "all": FOREIGN})
        connection.execute("vacuum analyze")
        yield clone


_BUSY: tuple[LiteralString, ...] = (
    "insert into mnemic.agents (agent_id) values (%(agent)s)",
    "insert into mnemic.memories (agent_id, id, kind, scope_key, subject, category, content, importance,"
    " provenance, valid_from, state, superseded_by)"
    " select %(agent)s, md5(n::text)::uuid, 'fact',"
    "  case when n %% %(each)s = 0 then 'user:ana' else 'user:' || n %% 200 end, 'x', 'profile',"
    "  'Memory ' || n, 3, 'asserted', now(),"
    "  case when n %% 2 = 0 then 'superseded' else 'active' end, case when n %% 2 = 0 then md5((n - 1)::text)::uuid end"
    " from generate_series(1, %(all)s) as n",
    "insert into mnemic.history (agent_id, seq, op_id, event, memory_id, scope_key, category, actor, actor_kind,"
    " reason, ts, prev, hash)"
    " select %(agent)s, n, gen_random_uuid(), 'ADD', md5(n::text)::uuid,"
    "  case when n %% %(each)s = 0 then 'user:ana' else 'user:' || n %% 200 end, 'profile', 'x', 'agent', 'formation',"
    "  now(), '', '' from generate_series(1, %(all)s) as n",
    "insert into mnemic.heads values (%(agent)s, %(all)s, '')",
    "insert into mnemic.sessions (agent_id, session_id, last_activity_at) values (%(agent)s, 's1', now())",
    "insert into mnemic.thread_revisions values (%(agent)s, 's1', '[\"supervisor\", \"ana\"]', 1, 0)",
)


@pytest.fixture
async def database(busy: Clone) -> AsyncIterator[Database]:
    async with busy.database() as db:
        yield db


def assert_only_the_visible(explaining: Explaining) -> None:
    (scan,) = explaining.scans("history")
    assert scan["Index Name"] == "history_scope"
    assert "seq >" in scan["Index Cond"]
    assert touched(scan) == VISIBLE
    beside = explaining.scans("memories")
    assert [node["Index Name"] for node in beside] == ["memories_pkey"] * 2
    assert max(map(touched, beside)) <= VISIBLE


async def explained(db: Database, *preparations: LiteralString) -> Explaining:
    async with db.scoped(ANA) as scoped:
        for preparation in preparations:
            await scoped.execute(preparation, {})
        explaining = Explaining(**vars(scoped))
        await revisions.changes(explaining, "s1", standing=True)
    return explaining


async def test_of_100_000_foreign_changes_none_is_touched(database: Database) -> None:
    assert_only_the_visible(await explained(database))
    async with database.scoped(ANA) as scoped:
        changes = await revisions.changes(scoped, "s1", standing=True)
    assert (len(changes.changes), changes.revision) == (VISIBLE, FOREIGN)


async def test_without_the_indexes_foreign_changes_would_be_touched(database: Database) -> None:
    off: tuple[LiteralString, ...] = ("set local enable_indexscan = off", "set local enable_bitmapscan = off")
    explaining = await explained(database, *off, "set local enable_indexonlyscan = off")
    with pytest.raises((AssertionError, KeyError)):
        assert_only_the_visible(explaining)
    assert max(map(touched, explaining.scans("history"))) >= FOREIGN
