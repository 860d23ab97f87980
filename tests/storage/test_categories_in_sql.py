"""Under an allowlist no row of another category exists, whatever a statement asks for, nor can one be made."""

from collections.abc import Sequence
from dataclasses import replace

import psycopg
import pytest

from mnemic.memory.runtime.categories import load_categories
from mnemic.state.errors import RefusedError
from mnemic.state.kinds import CONTEXT_KINDS, Kind
from mnemic.state.query import MemoryFilters, MemoryQuery
from mnemic.state.records import IndexedText, NewMemory, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import inbox, memories
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.matrix import few_first
from tests.support.searching import contents, searched
from tests.support.server import Clone
from tests.support.worlds import MODEL, MORNING, direction, identity, memory, message

ME = identity("ana", session="s1")
CATEGORIES = load_categories()
EVERY = tuple(CATEGORIES.by_name)
KINDS: dict[str, Kind] = {"procedural": "procedure", "journal": "journal", "relationship_dynamic": "insight"}
OF_MESSAGES = "message"
SAID = "The wombat said it all."
VECTOR = direction(0)
#: What a transaction sees of each table without any condition, by category.
SEEN = {
    "memories": "select distinct category from memories",
    "entries": "select distinct category from entries",
    "history": "select distinct category from history",
    "history_contents": "select distinct coalesce(after, before) ->> 'category' from history_contents",
    "messages": f"select distinct '{OF_MESSAGES}' from messages",
}
#: A policy as it was before there were categories.
BEFORE = (
    "agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))"
    " and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[])"
)


def of_category(category: str, content: str, kind: Kind) -> NewMemory:
    return replace(memory(content, kind=kind), category=category)


async def live(db: Database) -> None:
    """Of every category a living memory, one that was replaced and a reflection; a kept message is their source."""
    said = message(SAID)
    async with db.transaction(ME) as tx:
        await inbox.observe(tx, "s1", [said])
        op_id = await tx.begin_operation("formation")
        for category in EVERY:
            kind = KINDS.get(category, "fact")
            if category == OF_MESSAGES:
                await inbox.settle(tx, op_id, [said], read_revision=0)
                text = IndexedText(item_id=said.id, text=SAID, vector=direction(0))
                await inbox.index_messages(tx, MODEL, [text])
                continue
            new = [
                of_category(category, f"Of the bees: {category}.", kind),
                of_category(category, f"Of the bees, once: {category}.", kind),
                of_category(category, f"Of the bees, on the whole: {category}.", "reflection"),
            ]
            new[0] = replace(new[0], source_message_ids=(said.id,))
            vectors = {item.id: direction(10) for item in new}
            await memories.insert(tx, new, model=MODEL, vectors=vectors, run_id=None)
            closing = Supersession(old_id=new[1].id, old_version=1, new_id=new[0].id, until=MORNING)
            await memories.supersede(tx, [closing])


@pytest.fixture
async def world(db: Database) -> Database:
    await live(db)
    return db


async def everything(tx: ScopedTransaction) -> set[str]:
    """The categories of all that the service's own reading brings, asked for every category there is.

    The check of a request's categories is left out.
    """
    requests = [
        MemoryQuery(query="bees wombat", categories=named, filters=filters, top_k=100)
        for named in (None, EVERY)
        for filters in (MemoryFilters(), MemoryFilters(importance_min=1, user_id="ana"))
    ]
    asked = [await searched(tx, request, VECTOR, EVERY) for request in requests]
    listed = await memories.list_memories(tx, [*CONTEXT_KINDS, "fact", *KINDS.values()], limit=999, with_closed=True)
    standing = await memories.read_context(tx, fact_categories=EVERY, max_facts=999)
    shown = [item for part in standing.scopes for item in (*part.texts, *part.facts)]
    return {item.category for items in asked for item in items} | {item.category for item in [*listed, *shown]}


async def bare(tx: ScopedTransaction, table: str) -> set[str]:
    cursor = await tx.execute(SEEN[table], {})
    return {row[0] for row in await cursor.fetchall()}


def visible(allowed: Sequence[str], table: str) -> set[str]:
    """What of an allowlist a table can hold."""
    others = {*allowed} - {OF_MESSAGES}
    only = {"messages": {*allowed} & {OF_MESSAGES}, "entries": {*allowed}}
    return only.get(table, others)


@pytest.mark.parametrize("role", few_first(CATEGORIES.allowlists))
async def test_a_role_sees_the_rows_of_its_categories_and_no_others(world: Database, role: str) -> None:
    allowed = CATEGORIES.of_role(role).categories
    async with world.transaction(ME, categories=allowed) as tx:
        for table in SEEN:
            assert await bare(tx, table) == visible(allowed, table), table
        assert await everything(tx) == {*allowed}


async def test_no_allowlist_shows_everything_and_an_empty_one_nothing(clean_db: Clone) -> None:
    """On one connection, since an allowlist ends with its transaction."""
    async with clean_db.database(Settings(pool_size=1)) as db:
        await live(db)
        for allowed, expected in ((("tasks",), ("tasks",)), (None, EVERY), ((), ())):
            async with db.transaction(ME, categories=allowed) as tx:
                assert await everything(tx) == {*expected}
                for table in SEEN:
                    assert await bare(tx, table) == visible(expected, table)


@pytest.mark.thorough
async def test_without_its_clause_a_table_shows_what_is_not_allowed(fresh_db: Clone) -> None:
    allowed = CATEGORIES.of_role("planner").categories
    async with fresh_db.database() as db:
        await live(db)
        for table in SEEN:
            with fresh_db.as_superuser() as connection:
                connection.execute(f"alter policy service on mnemic.{table} using ({BEFORE})")
            async with db.transaction(ME, categories=allowed) as tx:
                assert await bare(tx, table) > visible(allowed, table)
        async with db.transaction(ME, categories=allowed) as tx:
            assert await everything(tx) == {*EVERY}


@pytest.mark.parametrize("role", ["supervisor", "planner"])
async def test_what_was_said_is_found_by_no_way_round_its_facts(world: Database, role: str) -> None:
    """Every fact stands on the message; its words lift nothing and come back with nothing where it is not allowed."""
    allowed = CATEGORIES.of_role(role).categories
    async with world.transaction(ME, categories=allowed) as tx:
        results = await searched(tx, MemoryQuery(query="wombat", search_type="text"), None, EVERY)
        assert bool(results) == (SAID in contents(results)) == (role == "supervisor")


FOREIGN_WRITES = [
    "insert into memories (agent_id, scope_key, id, kind, subject, category, content, importance, provenance,"
    " valid_from) select 'harbor', 'user:ana', gen_random_uuid(), 'fact', 'Ana', {}, 'x', 2, 'asserted', now()",
    "insert into entries (agent_id, scope_key, item_id, kind, category, model, tsv)"
    " values ('harbor', 'user:ana', gen_random_uuid(), 'fact', {}, '', '')",
    "insert into messages (agent_id, id, session_id, scope_key, place, role, author, said_at)"
    " values ('harbor', gen_random_uuid(), 's1', 'user:ana', 1, 'user', 'Ana', now())",
    "update entries set category = {}",
]


@pytest.mark.parametrize("statement", FOREIGN_WRITES)
async def test_no_row_of_another_category_can_be_made(world: Database, statement: str) -> None:
    async def write(category: str) -> None:
        async with world.transaction(ME, categories=["tasks"]) as tx:
            await tx.begin_operation("remember")
            await tx.execute(statement.format(f"'{category}'"), {})

    with pytest.raises(RefusedError, match="row-level security"):
        await write("knowledge")
    if "{}" in statement:
        await write("tasks")


async def test_what_is_not_allowed_is_neither_changed_nor_closed(
    world: Database, superuser: psycopg.Connection
) -> None:
    others = "select md5(string_agg(m::text, '' order by id)) from mnemic.memories m where category <> 'tasks'"
    before = superuser.execute(others).fetchone()
    async with world.transaction(ME, categories=["tasks"]) as tx:
        await tx.begin_operation("forget")
        changed = await tx.execute("update memories set importance = 5 where state = 'active'", {})
        assert changed.rowcount == 2
        gone = await tx.execute("delete from entries where category <> 'tasks'", {})
        assert gone.rowcount == 0
    assert superuser.execute(others).fetchone() == before
