"""The supervisor's threads hold the conversation and no word of the memory, under every durability; what it costs."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from mnemic import Mnemic
from mnemic.nodes import supervisor as supervisor_nodes
from mnemic.operations.run.resources import Resources
from mnemic.storage.database import Database
from tests.support.fixtures import memory as memory
from tests.support.loopback import LoopbackModel, calling
from tests.support.savers import DURABILITIES, Durability, Everything, in_process
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.supervised import (
    ANA,
    BEES,
    CANARY,
    QUESTION,
    SAID,
    answers_of,
    forgetting,
    keep,
    requests,
    says,
    system_of,
    thread,
    turn,
)

Kept = tuple[BaseCheckpointSaver[Any], Everything]
Statements = Callable[[Database], AbstractContextManager[list[str]]]


@asynccontextmanager
async def of_mnemic(clone: Clone, memory: Mnemic) -> AsyncIterator[Kept]:
    async def everything() -> str:
        with clone.as_superuser() as connection:
            return "\n".join(_rows(connection))

    yield memory.checkpointer(ANA), everything


def _rows(connection: Any) -> list[str]:
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "supervisor_checkpoints")
    return [repr(row) for table in tables for row in connection.execute(f"select * from mnemic.{table}")]


@asynccontextmanager
async def in_memory(clone: Clone, _: Mnemic) -> AsyncIterator[Kept]:
    async with in_process(clone) as kept:
        yield kept


both = pytest.mark.parametrize("keeping", [in_memory, of_mnemic], ids=["memory", "mnemic"])


CASES = [
    pytest.param(in_memory, "exit", id="memory"),
    pytest.param(of_mnemic, "sync", id="mnemic"),
    *(pytest.param(saver, durability, marks=pytest.mark.thorough)
      for saver in (in_memory, of_mnemic) for durability in DURABILITIES),
]  # fmt: skip


@pytest.mark.parametrize(("keeping", "durability"), CASES)
async def test_a_thread_goes_on_after_an_interrupt_and_holds_nothing_of_the_memory(
    fresh_db: Clone, model: LoopbackModel, keeping: Any, durability: Durability
) -> None:
    async with scripted_memory(fresh_db, model) as memory, keeping(fresh_db, memory) as (saver, everything):
        kept = await keep(memory, importance=5)
        await keep(memory, f"Ana's bees fly over the quay, says {CANARY}.")
        asks = calling(("memory_query", {"query": "bees"}), ("researcher", {"task": "What of the bees?"}))
        says(model, asks, forgetting(kept), SAID)
        model.answer(lambda request: "as its researcher" in str(request), f"They are called {CANARY}.")
        graph = memory.graphs.supervisor(saver)
        asked = await turn(graph, durability=durability)
        before, *_ = requests(model)
        assert BEES in system_of(before)
        assert [item.value for item in asked["__interrupt__"]] == [
            {"action": "forget", "memories": [{"id": kept, "kind": "fact", "importance": 5}]}
        ]

        again = memory.graphs.supervisor(saver)  # as another process would
        done = await again.ainvoke(Command(resume={"approved": True}), thread(), context=ANA, durability=durability)

        last = requests(model)[-1]
        assert (BEES in system_of(last), "over the quay" in system_of(last)) == (False, True)  # asked for again
        assert done["messages"][-1].text == SAID
        assert CANARY not in "".join(answers_of(last))
        found = await everything()
        assert SAID in found
        assert CANARY not in found


@pytest.mark.thorough
@both
async def test_control_tools_whose_answers_are_kept_would_be_found(
    fresh_db: Clone, model: LoopbackModel, keeping: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(done: list[ToolMessage]) -> Any:
        return done, {}

    monkeypatch.setattr(supervisor_nodes, "without_contents", kept)
    async with scripted_memory(fresh_db, model) as memory, keeping(fresh_db, memory) as (saver, everything):
        await keep(memory)
        says(model, calling(("memory_query", {"query": "bees"})), SAID)
        await turn(memory.graphs.supervisor(saver))
        assert CANARY in await everything()


@pytest.mark.parametrize("kind", [InMemorySaver, None], ids=["memory", "mnemic"])
async def test_a_recall_adds_one_statement_to_what_a_turn_sends(
    memory: Mnemic, resources: Resources, model: LoopbackModel, statements: Statements, kind: Any
) -> None:
    await keep(memory)
    says(model, SAID)
    graph = memory.graphs.supervisor(kind() if kind else memory.checkpointer(ANA))
    for _ in range(2):
        await turn(graph)  # from now on the session is known, and that it has used this memory
        await resources.background.finish()
    sent: list[list[str]] = []
    for text in ("Good morning.", QUESTION):
        with statements(resources.database) as seen:
            await turn(graph, text)
            await resources.background.finish()
        sent.append([item for item in seen if not is_hosts_own(item)])
    assert [sum("from entries" in item for item in seen) for seen in sent] == [0, 1]
    assert len(sent[1]) == len(sent[0]) + 1
    assert BEES in system_of(requests(model)[-1])


def is_hosts_own(statement: str) -> bool:
    """Of its checkpoints or its driver, or where a transaction begins and ends."""
    if any(word in statement for word in ("checkpoint", "mnemic.threads", "pg_type")):
        return True
    return statement.lower().startswith(("begin", "commit"))
