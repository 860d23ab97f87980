"""What a turn costs the database: statements counted on the server, and no write-ahead log for whoever only reads."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection

from mnemic.memory.recall.query import query
from mnemic.memory.runtime.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.storage.database import Database
from tests.support.loopback import LoopbackModel
from tests.support.scripted import FACTS, fact, facts, scripted_model, scripted_resources, turns
from tests.support.server import Clone, recorded_statements
from tests.support.worlds import identity

ANA = identity("ana", groups=["crew"], session="s1")
SAID = "The ferry leaves at seven.", "assistant: I see.", "The lighthouse is closed.", "Ana keeps bees."
QUESTION = "When does the ferry leave?"


@pytest.fixture
def model() -> Iterator[LoopbackModel]:
    with scripted_model() as running:
        running.answer(FACTS, facts(fact("The ferry leaves at seven."), fact("The lighthouse is closed.", 3)))
        yield running


@pytest.fixture
async def resources(clean_db: Clone, model: LoopbackModel) -> AsyncIterator[Resources]:
    async with scripted_resources(clean_db, model) as opened:
        yield opened


@pytest.fixture
async def memory(resources: Resources) -> Mnemic:
    """The service on what was formed of one conversation."""
    memory = Mnemic(resources)
    await memory.observe(ANA, turns(*SAID))
    await memory.form(ANA)
    return memory


def transactions(sent: list[str]) -> list[list[str]]:
    """The statements of each transaction, without those that every one has: BEGIN or the scope, and COMMIT."""
    found: list[list[str]] = []
    for statement in sent:
        if statement.startswith(("begin; ", "select length(set_config(")):
            found.append([])
        elif statement != "COMMIT":
            found[-1].append(statement)
    return found


@pytest.mark.parametrize(
    ("who", "search", "standing", "searches", "found"),
    [  # the standing part, and the changes, which only a session is told of
        (ANA, "never", 2, 0, 0),
        (ANA, "always", 2, 1, 2),
        (ANA, "auto", 2, 1, 1),  # the words of the question are counted with the standing part
        (identity("ana"), "never", 1, 0, 0),
    ],
)
async def test_recall_is_three_statements_at_most_with_search_in_its_transaction(
    memory: Mnemic, clean_db: Clone, who: Identity, search: Any, standing: int, searches: int, found: int
) -> None:
    with recorded_statements(clean_db) as sent:
        recalled = await memory.recall(who, QUESTION, search=search)
    read, *searched = transactions(sent)
    assert len(recalled.memories) == found
    assert len(read) == standing
    assert [["from entries" in statement for statement in each] for each in searched] == [[True]] * searches


async def test_a_memory_query_is_one_statement(memory: Mnemic, resources: Resources, clean_db: Clone) -> None:
    with recorded_statements(clean_db) as sent:
        found = await query(resources, ANA, MemoryQuery(query=QUESTION))
    assert found
    assert [len(read) for read in transactions(sent)] == [1]


async def test_a_conversation_takes_a_few_transactions(memory: Mnemic, model: LoopbackModel, clean_db: Clone) -> None:
    model.answer(FACTS, facts(fact("The harbour has two cranes."), fact("Bo repairs clocks.", 2)))
    with recorded_statements(clean_db) as sent:
        await memory.observe(ANA, turns("The harbour has two cranes.", "Bo repairs clocks.", "Well then.", "Good."))
        (run,) = await memory.form(ANA)
    assert run.stored == {"fact": 2}
    work = transactions(sent)
    usage = [each for each in work if any("token_usage" in statement for statement in each)]
    assert [len(each) for each in usage] == [1, 1, 1]  # of facts, decisions and reflections, each after its answer
    observed, taken_up, compared, saved = [each for each in work if each not in usage]
    assert len(observed) == 2
    assert len(taken_up) == 5
    assert ["as similarity" in statement for statement in compared] == [True, False]  # and the context memory
    assert sum("insert into memories" in statement for statement in saved) == 1
    assert len(saved) == 7  # no further transaction looks for pending messages


async def test_recall_and_memory_query_write_nothing(
    memory: Mnemic, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    #: Of each transaction, at its end, whether it had to be given a number, as every one that writes has.
    written: list[bool] = []
    real = Database._open_transaction

    @asynccontextmanager
    async def watched(self: Database, *begun: Any, **values: Any) -> AsyncIterator[tuple[AsyncConnection, list[str]]]:
        async with real(self, *begun, **values) as (connection, results):
            yield connection, results
            cursor = await connection.execute("select pg_current_xact_id_if_assigned() is not null")
            written.extend(number for (number,) in await cursor.fetchall())

    monkeypatch.setattr(Database, "_open_transaction", watched)
    assert (await memory.recall(ANA, QUESTION, search="always")).memories
    assert await query(resources, ANA, MemoryQuery(query=QUESTION))
    assert written == [False] * 3
