"""What LangGraph shows of the graphs: those that a node runs are drawn in the node's place."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from mnemic import Mnemic
from mnemic.graphs import consolidation, formation, recall, supervisor
from mnemic.state.supervisor import SupervisorState
from tests.support.loopback import LoopbackModel
from tests.support.supervised import ANA, CANARY, QUESTION, SAID, keep, says, thread


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
    builder = StateGraph(SupervisorState)
    builder.add_node("talk", supervisor.graph)
    builder.add_edge(START, "talk")
    assert in_place_of("talk", supervisor.graph) < drawn(builder.compile())


@pytest.mark.parametrize("node", ["recall", "observe"])
@pytest.mark.parametrize("own", [False, True], ids=["memory", "mnemic"])
async def test_a_thread_that_waits_before_such_a_node_can_be_read_and_goes_on(
    memory: Mnemic, model: LoopbackModel, node: str, own: bool
) -> None:
    await keep(memory)
    says(model, SAID)
    graph: Any = memory.graphs.supervisor(memory.checkpointer(ANA) if own else InMemorySaver())
    said = {"messages": [HumanMessage(QUESTION)]}
    await graph.ainvoke(said, thread(), context=ANA, interrupt_before=[node])

    state = await graph.aget_state(thread(), subgraphs=True)
    (task,) = state.tasks
    assert (state.next, task.name, task.state.values) == ((node,), node, {})
    done = await graph.ainvoke(None, thread(), context=ANA)
    assert done["messages"][-1].text == SAID
    assert CANARY not in str([item async for item in graph.aget_state_history(thread())])
