"""Hosts that run agents, nodes and graphs with `invoke` and `stream`, in any thread, and with `ainvoke` on any loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from mnemic import Identity, Mnemic, with_memory
from mnemic.examples.agent import StandIn
from mnemic.examples.compose import Turn
from mnemic.service.sync import SyncMnemic
from mnemic.state.errors import BlockedLoopError, MissingIdentityError
from tests.support.agents import says
from tests.support.loopback import LoopbackModel, calling
from tests.support.scripted import scripted_settings
from tests.support.server import Clone

LEA = "Lea is allergic to nuts."
QUESTION = "Do you remember what Lea is allergic to?"
MONDAY = Identity(agent_id="guide", user_id="ana", session_id="monday")
FRIDAY = Identity(agent_id="guide", user_id="ana", session_id="friday")
#: Runs a graph for a host.
Run = Callable[..., Any]


def invoked(graph: Any, *given: Any, **named: Any) -> Any:
    return graph.invoke(*given, **named)


def streamed(graph: Any, *given: Any, **named: Any) -> Any:
    return list(graph.stream(*given, stream_mode="values", **named))[-1]


def in_a_thread(graph: Any, *given: Any, **named: Any) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(graph.invoke, *given, **named).result()


def inside_a_loop(graph: Any, *given: Any, **named: Any) -> Any:
    async def cell() -> Any:
        return graph.invoke(*given, **named)

    return asyncio.run(cell())


def awaited(graph: Any, *given: Any, **named: Any) -> Any:
    return asyncio.run(graph.ainvoke(*given, **named))


RUNS = (invoked, streamed, in_a_thread, inside_a_loop, awaited)


def build(memory: Mnemic | SyncMnemic) -> Any:
    """Return a graph with the nodes, whose own node needs no event loop."""

    def answer(state: Turn) -> dict[str, Any]:
        return {"messages": [AIMessage(with_memory(state["messages"], state["memory_context"])[-1].text)]}

    graph = StateGraph(Turn, context_schema=Identity)
    graph.add_node("recall", memory.nodes.recall())
    graph.add_node("answer", answer)
    graph.add_node("observe", memory.nodes.observe())
    graph.add_node("form", memory.nodes.form())
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "answer")
    graph.add_edge("answer", "observe")
    graph.add_edge("observe", "form")
    return graph


def converse(memory: Mnemic | SyncMnemic, run: Run) -> None:
    """Run an agent with the middleware, a graph with the nodes, and the graphs."""
    agent: Any = create_agent(
        StandIn(), middleware=[memory.middleware()], context_schema=Identity, checkpointer=InMemorySaver()
    )
    thread: RunnableConfig = {"configurable": {"thread_id": run.__name__}}
    answers = []
    for text in (QUESTION, "Which cake suits Lea?"):  # the second one calls the tool
        answers.append(run(agent, {"messages": [HumanMessage(text)]}, thread, context=FRIDAY)["messages"][-1].text)
    assert [LEA in answer for answer in answers] == [True, True]

    own = build(memory).compile(checkpointer=memory.threads.checkpointer())
    config = memory.threads.config(FRIDAY, f"own-{run.__name__}")
    turn = run(own, {"messages": [HumanMessage(QUESTION)]}, config, context=FRIDAY)
    assert LEA in turn["messages"][-1].text

    if run is not streamed:  # the context is no streamed value
        recalled = run(memory.graphs.recall, {"question": QUESTION}, context=FRIDAY)
        assert LEA in recalled["context"].turn
    supervisor = memory.graphs.supervisor(memory.threads.checkpointer())
    config = memory.threads.config(FRIDAY, f"supervisor-{run.__name__}")
    for count in (2, 4):
        turn = run(supervisor, {"messages": [HumanMessage("Good morning.")]}, config, context=FRIDAY)
        assert len(turn["messages"]) == count
    with pytest.raises(MissingIdentityError):
        run(memory.graphs.recall, {"question": QUESTION})


def wait_for(runs: tuple[Run, ...], memory: Mnemic | SyncMnemic) -> None:
    for run in runs:
        converse(memory, run)


@pytest.fixture
def opened(clean_db: Clone) -> Iterator[SyncMnemic]:
    with Mnemic.open_sync(database_url=clean_db.service_dsn, embedder="hash") as memory:
        memory.remember(MONDAY, LEA, category="relationships")
        yield memory


def test_a_synchronous_memory_serves_every_way_to_run(opened: SyncMnemic) -> None:
    wait_for(RUNS, opened)
    threads = {status.id for status in opened.threads.list(FRIDAY)}
    assert threads == {f"{kind}-{run.__name__}" for run in RUNS for kind in ("own", "supervisor")}


@pytest.fixture
async def asynchronous(clean_db: Clone) -> AsyncIterator[Mnemic]:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
        await memory.remember(MONDAY, LEA, category="relationships")
        yield memory


async def test_an_asynchronous_memory_serves_other_threads_and_loops(asynchronous: Mnemic) -> None:
    await asyncio.to_thread(wait_for, RUNS, asynchronous)


async def test_on_its_own_thread_it_is_refused(asynchronous: Mnemic) -> None:
    turn = {"messages": [HumanMessage("Good morning.")]}
    graphs: tuple[Any, ...] = (
        asynchronous.graphs.recall,
        asynchronous.graphs.supervisor(),
        build(asynchronous).compile(),
        create_agent(StandIn(), middleware=[asynchronous.middleware()], context_schema=Identity),
    )
    for graph in graphs:
        with pytest.raises(BlockedLoopError, match="open_sync"):
            graph.invoke(turn, context=FRIDAY)
    saver = asynchronous.threads.checkpointer()
    with pytest.raises(BlockedLoopError):
        saver.get_tuple(asynchronous.threads.config(FRIDAY))


async def test_a_loop_that_waits_for_the_run_is_found(asynchronous: Mnemic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemic.storage.home_loop.ANSWERS_WITHIN_SECONDS", 0.2)
    for run in (in_a_thread, awaited_in_a_thread):
        with pytest.raises(BlockedLoopError):
            run(asynchronous.graphs.recall, {}, context=FRIDAY)


def awaited_in_a_thread(graph: Any, *given: Any, **named: Any) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(awaited, graph, *given, **named).result()


async def test_agents_in_all_threads_of_the_loop_do_not_keep_the_memory_from_its_own(asynchronous: Mnemic) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    agent: Any = create_agent(StandIn(), middleware=[asynchronous.middleware()], context_schema=Identity)
    turn = {"messages": [HumanMessage(QUESTION)]}
    turns = [asyncio.to_thread(agent.invoke, turn, context=FRIDAY) for _ in range(8)]
    answers = await asyncio.wait_for(asyncio.gather(*turns), 60)
    assert [LEA in answer["messages"][-1].text for answer in answers] == [True] * 8


def test_an_interrupt_of_a_graph_reaches_a_synchronous_host(clean_db: Clone, model: LoopbackModel) -> None:
    with Mnemic.open_sync(settings=scripted_settings(clean_db, model)) as memory:
        kept = memory.remember(MONDAY, LEA, category="relationships", importance=4).id
        says(model, calling(("correct", {"id": str(kept), "content": "Lea is allergic to milk."})), "Done.")
        supervisor = memory.graphs.supervisor(memory.threads.checkpointer())
        config = memory.threads.config(FRIDAY)
        parts = list(supervisor.stream({"messages": [HumanMessage("Correct it.")]}, config, context=FRIDAY))
        assert "__interrupt__" in parts[-1]
        done = supervisor.invoke(Command(resume={"approved": True}), config, context=FRIDAY)
        assert done["messages"][-1].text == "Done."
        assert [row.content for row in memory.memories(MONDAY)] == ["Lea is allergic to milk."]
