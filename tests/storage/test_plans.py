"""How Postgres runs the search under row-level security: of 20,000 entries only the visible 400 are touched."""

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString, TypeVar

import pytest

from mnemic.state.settings import Settings
from mnemic.storage import memories, search
from mnemic.storage.database import Database, Scoped
from tests.support.crowd import DIMENSIONS, ENTRIES_EACH, load_crowd
from tests.support.server import Clone, Server, cloned
from tests.support.worlds import AGENT, MODEL, identity

Row = TypeVar("Row")
Node = dict[str, Any]

WHO = identity("7", groups=["pier"], session="s1")
QUESTION = "Does the ferry go to the lighthouse?"
VECTOR = tuple(random.Random(7).gauss(0, 1) for _ in range(DIMENSIONS))
#: Every tenth entry is pending, another tenth is of a former model.
OF_THE_MODEL = ENTRIES_EACH * 8 // 10


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
class Explaining(Scoped):
    """A transaction that explains the statement and its values instead of returning rows."""

    nodes: list[Node] = field(default_factory=list)

    async def rows(self, record: type[Row], statement: LiteralString, values: Any) -> list[Row]:
        cursor = await self.execute("explain (analyze, format json) " + statement, values)
        ((plans,),) = await cursor.fetchall()
        self.nodes.extend(_walk(plans[0]["Plan"]))
        return []

    def scans(self, table: str) -> list[Node]:
        return [node for node in self.nodes if node.get("Relation Name") == table]


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)


@asynccontextmanager
async def explaining(db: Database, *preparations: LiteralString) -> AsyncIterator[Explaining]:
    async with db.scoped(WHO) as scoped:
        for preparation in preparations:
            await scoped.execute(preparation, {})
        yield Explaining(**vars(scoped))


def touched(scan: Node) -> float:
    """Rows that a scan has read, those it threw away included."""
    removed = scan.get("Rows Removed by Filter", 0) + scan.get("Rows Removed by Index Recheck", 0)
    rows: float = (scan["Actual Rows"] + removed) * scan["Actual Loops"]
    return rows


def assert_only_the_visible(scans: list[Node]) -> None:
    for scan in scans:
        assert scan.get("Index Name") == "entries_scope", scan["Node Type"]
        condition = scan["Index Cond"]
        assert f"agent_id = '{AGENT}'" in condition
        # the statement's own keys, and those of the policy
        assert condition.count("scope_key = ANY") == 2, condition
        assert "InitPlan" in condition or "$" in condition
        assert touched(scan) <= ENTRIES_EACH


async def run_search(scoped: Scoped, question: str = QUESTION) -> None:
    await search.search(scoped, question, VECTOR, model=MODEL, settings=Settings(), most=5)


async def test_the_semantic_branch_is_one_index_only_scan_of_the_visible_entries(database: Database) -> None:
    async with explaining(database) as scoped:
        await run_search(scoped)
    (semantic,) = [scan for scan in scoped.scans("entries") if scan["Node Type"] == "Index Only Scan"]
    assert_only_the_visible([semantic])
    assert f"model = '{MODEL}'" in semantic["Index Cond"]
    assert (semantic["Actual Rows"], semantic["Heap Fetches"]) == (OF_THE_MODEL, 0)


@pytest.mark.parametrize("question", [QUESTION, f'{QUESTION} "the lighthouse"'])
async def test_no_branch_touches_an_entry_of_somebody_else(database: Database, question: str) -> None:
    async with explaining(database) as scoped:
        await run_search(scoped, question)
    scans = scoped.scans("entries")
    assert len(scans) == 3  # by meaning, by text, and the scores of the candidates
    assert_only_the_visible(scans)
    for table in ("memories", "messages", "sources"):
        assert {scan["Node Type"] for scan in scoped.scans(table)} == {"Index Scan"}
        assert {scan["Index Name"] for scan in scoped.scans(table)} == {f"{table}_pkey"}


async def test_a_search_without_indexes_would_be_noticed(database: Database) -> None:
    off: tuple[LiteralString, ...] = ("set local enable_indexonlyscan = off", "set local enable_indexscan = off")
    async with explaining(database, *off, "set local enable_bitmapscan = off") as scoped:
        await run_search(scoped)
    with pytest.raises(AssertionError):
        assert_only_the_visible(scoped.scans("entries"))


async def test_the_neighbours_of_new_facts_are_one_index_only_scan_each(database: Database) -> None:
    async with explaining(database) as scoped:
        keys = ["user:7", "agent:harbor", "user:8"]
        await memories.similar(scoped, keys, [VECTOR] * len(keys), model=MODEL, most=5)
    (scan,) = scoped.scans("entries")
    assert scan["Node Type"] == "Index Only Scan"
    assert_only_the_visible([scan])
    assert f"model = '{MODEL}'" in scan["Index Cond"]
    assert "scope_key = n.scope_key" in scan["Index Cond"]
    assert scan["Actual Loops"] == len(keys)


async def test_the_standing_part_reads_no_facts(database: Database) -> None:
    async with explaining(database) as scoped:
        await memories.standing(scoped)
    (scan,) = scoped.scans("memories")
    assert scan["Index Name"] in ("memories_standing", "memories_one_consolidation")
    assert touched(scan) == 0


async def test_the_plan_explained_is_the_plan_that_runs(database: Database) -> None:
    """psycopg prepares a statement at its sixth run, and Postgres could turn to a plan that knows no values."""
    for _ in range(14):
        async with database.scoped(WHO) as scoped:
            await run_search(scoped)
            await memories.similar(scoped, ["user:7"], [VECTOR], model=MODEL, most=5)
    async with database.catalog() as connection:
        cursor = await connection.execute(
            "select generic_plans, custom_plans > 5 from pg_prepared_statements where statement ~ 'from entries'"
        )
        assert await cursor.fetchall() == [(0, True)] * 2
