"""How Postgres reads under row-level security: of 20,000 entries or 10,000 changes only the visible are touched."""

import json
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString, TypeVar

import pytest
from psycopg import AsyncClientCursor

from mnemic.state.identity import Identity
from mnemic.state.query import MemoryFilters, MemoryQuery
from mnemic.state.records import Relation, TurnWords
from mnemic.state.settings import Settings
from mnemic.storage import inbox, memories, revisions
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction, numbered
from tests.support.searching import DIMENSIONS, ENTRIES_EACH, USERS, load_crowd, searched
from tests.support.server import Clone, Server, cloned
from tests.support.worlds import MODEL, identity, memory

Row = TypeVar("Row")
Node = dict[str, Any]

WHO = identity("7", groups=["pier"], session="s1")
CATEGORIES = ("profile", "message")
QUESTION = "Does the ferry go to the lighthouse?"
VECTOR = tuple(random.Random(7).gauss(0, 1) for _ in range(DIMENSIONS))
#: Every tenth entry is of a former model; another tenth is pending, and seen too.
SEEN = ENTRIES_EACH * 9 // 10


@pytest.fixture(scope="module")
def crowd(server: Server, template: str) -> Iterator[Clone]:
    with cloned(server, template) as clone:
        load_crowd(clone)
        yield clone


@pytest.fixture
async def database(crowd: Clone) -> AsyncIterator[Database]:
    async with crowd.database(Settings(pool_size=1)) as db:
        yield db


@dataclass(frozen=True)
class Explaining(ScopedTransaction):
    """A transaction that explains statements instead of returning rows: the plan that runs, which knows no values."""

    nodes: list[Node] = field(default_factory=list)

    async def rows(
        self, record: type[Row], statement: LiteralString, values: Any, *, for_host: bool = False
    ) -> list[Row]:
        await self.tuples(statement, values)
        return []

    async def tuples(self, statement: LiteralString, values: Any) -> list[tuple[Any, ...]]:
        text, names = numbered(statement)
        marks = ", ".join(["%s"] * len(names))
        async with AsyncClientCursor(self.connection) as cursor:
            await cursor.execute(b"prepare explained as " + text)
            explain = f"explain (analyze, format json) execute explained ({marks})".encode()
            named = self._with_own_values(values)
            listed = [list(value) if isinstance(value := named[name], tuple) else value for name in names]
            await cursor.execute(explain, listed)
            ((plans,),) = await cursor.fetchall()
            await cursor.execute("deallocate explained")
        self.nodes.extend(walk(plans[0]["Plan"]))
        return []

    def scans(self, table: str) -> list[Node]:
        """Those that ran: what filters and related memories ask for stays asleep without them."""
        return [node for node in self.nodes if node.get("Relation Name") == table and node["Actual Loops"]]


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


@asynccontextmanager
async def explaining(db: Database, *preparations: LiteralString, who: Identity = WHO) -> AsyncIterator[Explaining]:
    async with db.transaction(who) as tx:
        for preparation in preparations:
            await tx.execute(preparation, {})
        yield Explaining(**vars(tx))


def touched(scan: Node) -> float:
    """Rows that a scan has read, those it threw away included."""
    removed = scan.get("Rows Removed by Filter", 0) + scan.get("Rows Removed by Index Recheck", 0)
    rows: float = (scan["Actual Rows"] + removed) * scan["Actual Loops"]
    return rows


def assert_only_the_visible(scans: list[Node], keys: int = 2) -> None:
    for scan in scans:
        assert scan.get("Index Name") == "entries_scope", scan["Node Type"]
        condition = scan["Index Cond"]
        assert "(agent_id = $" in condition
        # the statement's own keys, those of the policy, and where it asks for each fact by itself, that fact's
        assert condition.count("scope_key = ANY") == keys, condition
        assert "InitPlan" in condition
        assert touched(scan) <= ENTRIES_EACH


async def run_search(tx: ScopedTransaction, question: str = QUESTION, filters: MemoryFilters | None = None) -> None:
    request = MemoryQuery(query=question, top_k=5, filters=filters or MemoryFilters())
    await searched(tx, request, VECTOR, CATEGORIES)


@pytest.mark.parametrize(
    ("question", "filters", "looks"),
    [  # by meaning and by text; filters look at the visible entries once more, and no further
        (QUESTION, MemoryFilters(), 2),
        (f'{QUESTION} "the lighthouse"', MemoryFilters(), 2),
        (QUESTION, MemoryFilters(importance_min=2), 3),
    ],
)
async def test_no_branch_touches_an_entry_of_somebody_else(
    database: Database, question: str, filters: MemoryFilters, looks: int
) -> None:
    async with explaining(database) as tx:
        await run_search(tx, question, filters)
    scans = tx.scans("entries")
    assert len(scans) == looks
    assert_only_the_visible(scans)
    for table in ("memories", "messages", "sources"):
        assert {scan["Node Type"] for scan in tx.scans(table)} <= {"Index Scan", "Index Only Scan"}
        used = {scan["Index Name"] for scan in tx.scans(table)}
        assert used - {"memories_superseded"} == {f"{table}_pkey"}
        # a row for each look-up: nothing is read to be thrown away
        assert all(touched(scan) <= 3 * scan["Actual Loops"] for scan in tx.scans(table))


@pytest.mark.parametrize("allowed", [None, CATEGORIES])
async def test_semantic_branch_is_one_index_only_scan_also_with_an_allowlist(
    database: Database, allowed: tuple[str, ...] | None
) -> None:
    async with database.transaction(WHO, categories=allowed) as bound:
        tx = Explaining(**vars(bound))
        await run_search(tx)
    (semantic,) = [scan for scan in tx.scans("entries") if scan["Node Type"] == "Index Only Scan"]
    assert_only_the_visible(tx.scans("entries"))
    assert "(model = ANY (ARRAY[$" in semantic["Index Cond"]
    assert (semantic["Actual Rows"], semantic["Heap Fetches"]) == (SEEN, 0)
    # rows that a join compares and drops; 8,000 would be each of the candidates with each of the results and more
    assert max(node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in tx.nodes) < 8_000


async def test_the_neighbours_of_new_facts_are_one_index_only_scan_each(database: Database) -> None:
    async with explaining(database) as tx:
        keys = ["user:7", "agent:harbor", "user:8"]
        await memories.find_nearest(tx, keys, [VECTOR] * len(keys), model=MODEL, limit=5)
    (scan,) = tx.scans("entries")
    assert_neighbours(scan, loops=len(keys))


async def test_candidates_of_new_facts_look_at_the_visible_entries_once(database: Database) -> None:
    facts = [replace(memory("The ferry has moved to the lighthouse."), subject="Ferry", subject_user_id="7")] * 3
    async with explaining(database) as tx:
        keys = [["user:7", "group:pier"], ["agent:harbor"], ["user:8"]]
        await memories.find_candidates(tx, facts, keys, [VECTOR] * len(keys), model=MODEL, limit=12)
    by_words, by_meaning = sorted(tx.scans("entries"), key=lambda scan: str(scan["Node Type"]) == "Index Only Scan")
    assert (by_words["Node Type"], by_words["Actual Loops"]) == ("Index Scan", len(WHO.scope_keys))
    assert_neighbours(by_meaning, loops=len(keys))
    assert_only_the_visible([by_words], keys=1)
    assert "scope_key = k.scope_key" in by_words["Index Cond"]
    known, *found = sorted(tx.scans("memories"), key=lambda scan: scan["Actual Loops"])
    assert (known["Actual Loops"], [scan["Index Name"] for scan in found]) == (1, ["memories_pkey"])
    assert "scope_key = ANY" in json.dumps([node.get("Index Cond") for node in tx.nodes])
    assert touched(known) <= ENTRIES_EACH


def assert_neighbours(scan: Node, loops: int) -> None:
    assert scan["Node Type"] == "Index Only Scan"
    assert_only_the_visible([scan], keys=3)
    assert "(model = $" in scan["Index Cond"]
    assert "scope_key = ANY (n.scope_keys)" in scan["Index Cond"]
    assert scan["Actual Loops"] == loops


@pytest.mark.parametrize(("always", "facts"), [([], 0), (["style"], 0), (["profile"], ENTRIES_EACH // 2)])
async def test_the_standing_part_reads_no_facts_but_those_always_in_context(
    database: Database, always: list[str], facts: int
) -> None:
    async with explaining(database) as tx:
        await memories.read_context(tx, fact_categories=always, max_facts=9)
    scans = tx.scans("memories")
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Bitmap Heap Scan"}
    indexes = {node["Index Name"] for node in tx.nodes if "Index Name" in node}
    assert indexes <= {"memories_context", "memories_one_consolidation", "agents_pkey"}
    assert [touched(scan) for scan in scans] == [0, facts]


async def test_the_words_of_a_turn_are_counted_in_two_looks_at_the_visible_entries(database: Database) -> None:
    async with explaining(database) as tx:
        turn = TurnWords(QUESTION.lower().rstrip("?").split(), ["ferry", "lighthouse"])
        await memories.read_context(tx, turn=turn)
    scans = tx.scans("entries")
    assert len(scans) == 2  # one counts all of them
    assert_only_the_visible(scans)


async def test_the_plan_explained_is_the_plan_that_runs(database: Database) -> None:
    """psycopg prepares a statement at its sixth run, and Postgres plans it once, without its values."""
    for _ in range(14):
        async with database.transaction(WHO) as tx:
            await run_search(tx)
            await memories.find_nearest(tx, ["user:7"], [VECTOR], model=MODEL, limit=5)
            await memories.find_candidates(tx, [memory("A ferry.")], [["user:7"]], [VECTOR], model=MODEL, limit=5)
    async with database.catalog() as connection:
        cursor = await connection.execute(
            "select generic_plans > 5, custom_plans from pg_prepared_statements where statement ~ 'from entries'"
        )
        assert await cursor.fetchall() == [(True, 0)] * 3


async def test_observed_messages_are_looked_up_by_key_in_an_empty_table_too(db: Database) -> None:
    """A plan that was made while a table was small serves until it is analysed."""
    row = {"id": str(uuid.uuid4()), "scope_key": "user:ana", "role": "user", "author": "Ana", "said_at": "2026-03-02"}
    row["utc_offset"] = "0"
    async with db.transaction(identity("ana", session="s1")) as tx:
        await inbox.observe(tx, "s1", [])
        explaining = Explaining(**vars(tx))
        values = {"session_id": "s1", "messages": json.dumps([row]), "identity": "{}", "user_id": "ana"}
        await explaining.tuples(inbox._SQL["observe"], values)
    scans = [node for node in explaining.scans("messages") if node["Node Type"].endswith("Scan")]
    keyed = [node for node in scans if node.get("Index Name") != "messages_pending"]  # which counts what is pending
    assert keyed
    for node in keyed:  # `= any (...)` of as many as there may be would be planned by the table's size, too
        condition = node.get("Index Cond", "")
        assert " AND (id = " in condition
        assert " ANY " not in condition


class ExplainingInsert(Explaining):
    """With the values that the statement is given, too."""

    async def tuples(self, statement: LiteralString, values: Any) -> list[tuple[Any, ...]]:
        cursor = await self.execute("explain (analyze, format json) " + statement, values)
        ((plans,),) = await cursor.fetchall()
        self.nodes.extend(walk(plans[0]["Plan"]))
        return []


async def lookups(clone: Clone) -> list[dict[str, Any]]:
    """How the statement reads memories for a hundred relations, of 10,000 that are there."""
    async with clone.database(Settings(pool_size=1)) as db, db.transaction(WHO) as tx:
        await tx.begin_operation("formation")
        found = await tx.tuples("select id from memories where scope_key = 'user:7' limit 100", {})
        targets = [Relation(to_id=target, strength=0.8) for (target,) in found]
        explaining = ExplainingInsert(**vars(tx))
        known = [memory(f"Fact {uuid.uuid4()}.", key="user:7") for _ in range(20)]
        new = [replace(item, relations=tuple(targets[n::20])) for n, item in enumerate(known)]
        await memories.insert(explaining, new, model=MODEL, vectors={}, run_id=None)
    return [node for node in explaining.scans("memories") if node["Node Type"] != "ModifyTable"]


def assert_each_by_its_key(nodes: list[dict[str, Any]]) -> None:
    (lookup,) = nodes
    assert (lookup["Node Type"], lookup.get("Index Name")) == ("Index Scan", "memories_pkey")
    assert (lookup["Actual Loops"], lookup["Actual Rows"]) == (100, 1)


@pytest.mark.thorough
async def test_each_end_is_looked_up_by_its_key(fresh_db: Clone) -> None:
    load_crowd(fresh_db)
    assert_each_by_its_key(await lookups(fresh_db))


def assert_only_the_users(tx: Explaining) -> None:
    (scan,) = tx.scans("history")
    assert scan["Index Name"] == "history_scope"
    assert "revision >" in scan["Index Cond"]
    assert round(touched(scan)) == ENTRIES_EACH // 2
    beside = tx.scans("memories")
    assert [node["Index Name"] for node in beside] == ["memories_pkey"] * 2
    assert max(map(touched, beside)) <= ENTRIES_EACH // 2


@pytest.mark.thorough
async def test_of_10_000_foreign_changes_none_is_touched_but_without_the_indexes(database: Database) -> None:
    who, session = identity("7", session="s-user:7"), "s-user:7"
    async with explaining(database, who=who) as tx:
        await revisions.read_changes(tx, session, with_context=True)
    assert_only_the_users(tx)
    async with database.transaction(who) as opened:
        changes = await revisions.read_changes(opened, session, with_context=True)
    assert (len(changes.changes), changes.revision) == (ENTRIES_EACH // 2, USERS * ENTRIES_EACH // 2)
    off: tuple[LiteralString, ...] = ("set local enable_indexscan = off", "set local enable_bitmapscan = off")
    async with explaining(database, *off, "set local enable_indexonlyscan = off", who=who) as tx:
        await revisions.read_changes(tx, session, with_context=True)
    with pytest.raises((AssertionError, KeyError)):
        assert_only_the_users(tx)
    assert max(map(touched, tx.scans("history"))) >= USERS * ENTRIES_EACH // 2
