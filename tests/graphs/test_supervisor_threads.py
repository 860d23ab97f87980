"""The supervisor's threads hold the conversation and no word of the memory, under every durability; what it costs."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START
from langgraph.types import Command

from mnemic import Mnemic
from mnemic.graphs import consolidation, formation, recall, supervisor
from mnemic.nodes import supervisor as supervisor_nodes
from mnemic.operations.run.resources import Resources
from mnemic.state.supervisor import SupervisorState
from mnemic.storage.database import Database
from tests.support.agents import (
    ANA,
    CANARY,
    KEPT,
    QUESTION,
    VISIBLE,
    answers_of,
    forgetting,
    keep,
    requests,
    says,
    system_of,
    thread,
    turn,
)
from tests.support.loopback import LoopbackModel, calling
from tests.support.matrix import few_first
from tests.support.scripted import memory as memory
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.threads import DURABILITIES, Durability, Everything, in_process, in_sequence

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


@pytest.mark.parametrize("keeping", [in_memory, of_mnemic], ids=["memory", "mnemic"])
@pytest.mark.parametrize("durability", few_first(DURABILITIES, 1))
async def test_a_thread_goes_on_after_an_interrupt_and_holds_nothing_of_the_memory(
    fresh_db: Clone, model: LoopbackModel, keeping: Any, durability: Durability
) -> None:
    async with scripted_memory(fresh_db, model) as memory, keeping(fresh_db, memory) as (saver, everything):
        kept = await keep(memory, importance=5)
        await keep(memory, f"Ana's bees fly over the quay, says {CANARY}.")
        asks = calling(("memory_query", {"query": "bees"}), ("researcher", {"task": "What of the bees?"}))
        says(model, asks, forgetting(kept), VISIBLE)
        model.answer(lambda request: "as its researcher" in str(request), f"They are called {CANARY}.")
        graph = memory.graphs.supervisor(saver)
        asked = await turn(graph, durability=durability)
        before, *_ = requests(model)
        assert KEPT in system_of(before)
        assert [item.value for item in asked["__interrupt__"]] == [
            {"action": "forget", "memories": [{"id": kept, "kind": "fact", "importance": 5}]}
        ]

        again = memory.graphs.supervisor(saver)  # as another process would
        done = await again.ainvoke(Command(resume={"approved": True}), thread(), context=ANA, durability=durability)

        last = requests(model)[-1]
        assert (KEPT in system_of(last), "over the quay" in system_of(last)) == (False, True)  # asked for again
        assert done["messages"][-1].text == VISIBLE
        assert CANARY not in "".join(answers_of(last))
        found = await everything()
        assert VISIBLE in found
        assert CANARY not in found


@pytest.mark.thorough
async def test_control_tools_whose_answers_are_kept_would_be_found(
    fresh_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(done: list[ToolMessage]) -> Any:
        return done, {}

    monkeypatch.setattr(supervisor_nodes, "without_contents", kept)
    async with scripted_memory(fresh_db, model) as memory, of_mnemic(fresh_db, memory) as (saver, everything):
        await keep(memory)
        says(model, calling(("memory_query", {"query": "bees"})), VISIBLE)
        await turn(memory.graphs.supervisor(saver))
        assert CANARY in await everything()


@pytest.mark.parametrize("kind", [InMemorySaver, None], ids=["memory", "mnemic"])
async def test_a_recall_adds_one_statement_to_what_a_turn_sends(
    memory: Mnemic, resources: Resources, model: LoopbackModel, statements: Statements, kind: Any
) -> None:
    await keep(memory)
    says(model, VISIBLE)
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
    assert KEPT in system_of(requests(model)[-1])


def is_hosts_own(statement: str) -> bool:
    """Of its checkpoints or its driver, or where a transaction begins and ends."""
    if any(word in statement for word in ("checkpoint", "mnemic.threads", "pg_type")):
        return True
    return statement.lower().startswith(("begin", "commit"))


def drawn(graph: Any) -> set[str]:
    return set(graph.get_graph(xray=True).nodes)


def in_place_of(node: str, graph: Any) -> set[str]:
    """What is drawn where the node would be."""
    return {f"{node}:{name}" for name in drawn(graph) - {START, END}}


def test_the_formation_graph_shows_the_consolidation_of_a_scope() -> None:
    expected = in_place_of("consolidate", consolidation.graph)
    assert {"consolidate:collect", "consolidate:write", "consolidate:save"} <= expected
    assert expected < drawn(formation.graph)


def test_the_supervisor_shows_what_it_recalls_and_has_formed(memory: Mnemic) -> None:
    expected = in_place_of("recall", recall.graph) | in_place_of("observe", formation.graph)
    assert {"recall:render", "observe:extract_facts", "observe:consolidate:write"} <= expected
    for graph in (supervisor.graph, memory.graphs.supervisor(), memory.graphs.supervisor(InMemorySaver())):
        assert drawn(graph) >= expected | {"agent", "confirm", "tools"}


def test_a_host_that_has_the_supervisor_as_a_node_shows_it_too() -> None:
    host = in_sequence(SupervisorState, {"talk": supervisor.graph}, context=None)
    assert in_place_of("talk", supervisor.graph) < drawn(host.compile())


@pytest.mark.parametrize("node", ["recall", "observe"])
@pytest.mark.parametrize("own", [False, True], ids=["memory", "mnemic"])
async def test_a_thread_that_waits_before_such_a_node_can_be_read_and_goes_on(
    memory: Mnemic, model: LoopbackModel, node: str, own: bool
) -> None:
    await keep(memory)
    says(model, VISIBLE)
    graph: Any = memory.graphs.supervisor(memory.checkpointer(ANA) if own else InMemorySaver())
    said = {"messages": [HumanMessage(QUESTION)]}
    await graph.ainvoke(said, thread(), context=ANA, interrupt_before=[node])

    state = await graph.aget_state(thread(), subgraphs=True)
    (task,) = state.tasks
    assert (state.next, task.name, task.state.values) == ((node,), node, {})
    done = await graph.ainvoke(None, thread(), context=ANA)
    assert done["messages"][-1].text == VISIBLE
    assert CANARY not in str([item async for item in graph.aget_state_history(thread())])
