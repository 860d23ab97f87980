"""The graphs on threads: each run begins anew, under every durability no thread holds a word of the memory."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START
from langgraph.types import Command
from psycopg.conninfo import make_conninfo

from mnemic import Mnemic
from mnemic.graphs import consolidation as consolidation_module
from mnemic.graphs import formation, recall, refinement, supervisor
from mnemic.memory.messages import supervisor as supervisor_operations
from mnemic.memory.runtime import resources
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import ConfigurationError, DatabaseSetupError, DatabaseUnavailableError
from mnemic.state.supervisor import SupervisorState
from tests.support.agents import (
    ANA,
    CANARY,
    KEPT,
    QUESTION,
    VISIBLE,
    answers_of,
    asked_in,
    forgetting,
    keep,
    requests,
    says,
    thread,
    turn,
)
from tests.support.loopback import LoopbackModel, calling
from tests.support.matrix import few_first
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    consolidation,
    contents,
    fact,
    facts,
    reflection,
    reflections,
    scripted_memory,
    turns,
)
from tests.support.server import Clone, recorded_statements
from tests.support.threads import DURABILITIES, TABLES, Durability, Everything, in_process, in_sequence
from tests.support.worlds import text_of

Kept = tuple[BaseCheckpointSaver[Any], Everything]


@asynccontextmanager
async def of_mnemic(clone: Clone, memory: Mnemic) -> AsyncIterator[Kept]:
    async def everything() -> str:
        with clone.as_superuser() as connection:
            return str([connection.execute(f"select * from mnemic.{table}".encode()).fetchall() for table in TABLES])

    yield memory.threads.checkpointer(ANA), everything


@pytest.mark.parametrize("keeping", [lambda clone, _: in_process(clone), of_mnemic], ids=["memory", "mnemic"])
@pytest.mark.parametrize("durability", few_first(DURABILITIES, 1))
async def test_thread_resumes_after_an_interrupt_and_stores_no_memory(
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
        assert KEPT in asked_in(before)
        assert [item.value for item in asked["__interrupt__"]] == [
            {"action": "forget", "memories": [{"id": kept, "kind": "fact", "importance": 5}]}
        ]

        again = memory.graphs.supervisor(saver)  # as another process would
        done = await again.ainvoke(Command(resume={"approved": True}), thread(), context=ANA, durability=durability)

        last = requests(model)[-1]
        assert (KEPT in asked_in(last), "over the quay" in asked_in(last)) == (False, True)  # asked for again
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

    monkeypatch.setattr(supervisor_operations, "split_contents", kept)
    async with scripted_memory(fresh_db, model) as memory, of_mnemic(fresh_db, memory) as (saver, everything):
        await keep(memory)
        says(model, calling(("memory_query", {"query": "bees"})), VISIBLE)
        await turn(memory.graphs.supervisor(saver))
        assert CANARY in await everything()


@pytest.mark.parametrize("kind", [InMemorySaver, None], ids=["memory", "mnemic"])
async def test_a_recall_adds_one_statement_to_what_a_turn_sends(
    memory: Mnemic, resources: Resources, model: LoopbackModel, clean_db: Clone, kind: Any
) -> None:
    await keep(memory)
    says(model, VISIBLE)
    graph = memory.graphs.supervisor(kind() if kind else memory.threads.checkpointer(ANA))
    for _ in range(2):
        await turn(graph)  # from now on the session is known, and that it has used this memory
        await resources.background.finish()
    sent: list[list[str]] = []
    for text in ("Good morning.", QUESTION):
        with recorded_statements(clean_db) as seen:
            await turn(graph, text)
            await resources.background.finish()
        sent.append([item for item in seen if not is_hosts_own(item)])
    assert [sum("from entries" in item for item in seen) for seen in sent] == [0, 1]
    assert len(sent[1]) == len(sent[0]) + 1
    assert KEPT in asked_in(requests(model)[-1])


def is_hosts_own(statement: str) -> bool:
    """Of its checkpoints, its driver or a new connection, or where a transaction begins and ends."""
    if any(word in statement for word in ("checkpoint", "mnemic.threads", "pg_type", "pg_backend_pid")):
        return True
    return statement.lower().startswith(("begin", "commit"))


def drawn(graph: Any) -> set[str]:
    return set(graph.get_graph(xray=True).nodes)


def in_place_of(node: str, graph: Any) -> set[str]:
    """What is drawn where the node would be."""
    return {f"{node}:{name}" for name in drawn(graph) - {START, END}}


def test_the_supervisor_shows_what_it_recalls_and_has_formed_in_a_host_too(memory: Mnemic) -> None:
    within = in_place_of("consolidate", consolidation_module.graph)
    assert {"consolidate:collect", "consolidate:write", "consolidate:save"} <= within < drawn(formation.graph)
    expected = in_place_of("recall", recall.graph) | in_place_of("observe", formation.graph)
    assert {"recall:render", "observe:extract_facts", "observe:consolidate:write"} <= expected
    for graph in (supervisor.graph, memory.graphs.supervisor(), memory.graphs.supervisor(InMemorySaver())):
        assert drawn(graph) >= expected | {"agent", "confirm", "tools"}
    host = in_sequence(SupervisorState, {"talk": supervisor.graph}, context=None)
    assert in_place_of("talk", supervisor.graph) < drawn(host.compile())


@pytest.mark.parametrize("node", ["recall", "observe"])
@pytest.mark.parametrize("own", [False, True], ids=["memory", "mnemic"])
async def test_a_thread_that_waits_before_such_a_node_can_be_read_and_goes_on(
    memory: Mnemic, model: LoopbackModel, node: str, own: bool
) -> None:
    await keep(memory)
    says(model, VISIBLE)
    graph: Any = memory.graphs.supervisor(memory.threads.checkpointer(ANA) if own else InMemorySaver())
    said = {"messages": [HumanMessage(QUESTION)]}
    await graph.ainvoke(said, thread(), context=ANA, interrupt_before=[node])

    state = await graph.aget_state(thread(), subgraphs=True)
    (task,) = state.tasks
    assert (state.next, task.name, task.state.values) == ((node,), node, {})
    done = await graph.ainvoke(None, thread(), context=ANA)
    assert done["messages"][-1].text == VISIBLE
    assert CANARY not in str([item async for item in graph.aget_state_history(thread())])


# -- on a server, which opens them at the first use


def on_a_thread(graph: Any) -> Any:
    """A call of the graph on one and the same thread, as LangGraph Server makes it, which holds no word of memory."""
    saver = InMemorySaver()
    served = graph.copy(update={"checkpointer": saver})

    async def run(**given: Any) -> Any:
        result = await served.ainvoke(given, thread(), context=ANA)
        assert CANARY not in f"{dict(saver.storage)} {dict(saver.writes)} {saver.blobs}"
        return result

    return run


async def form(memory: Mnemic, model: LoopbackModel, text: str) -> None:
    model.answer(REFLECTIONS, reflections(user=[reflection(text)]))
    await memory.observe(ANA, turns(text))
    await memory.form(ANA)


async def test_a_second_consolidation_is_a_run_of_its_own(memory: Mnemic, model: LoopbackModel) -> None:
    run = on_a_thread(memory.graphs.consolidation)
    await form(memory, model, f"Ana wants {CANARY}.")
    model.answer(CONSOLIDATION, consolidation(f"Ana wants {CANARY}."), consolidation(f"Ana wants {CANARY} and bees."))
    first = await run(scope_key="user:ana", force=True)
    await form(memory, model, "Ana wants bees.")
    second = await run(scope_key="user:ana", force=True)
    third = await run(scope_key="user:ana", force=True)

    assert [result["outcome"] for result in (first, second, third)] == ["saved", "saved", "not_due"]
    assert await contents(memory, ANA, "consolidation") == [f"Ana wants {CANARY} and bees."]


async def test_a_second_formation_reports_its_own_figures(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.admin.configure_agent(ANA, user_threshold=1)
    model.answer(FACTS, facts(fact(f"Ana keeps {CANARY}.")), facts())
    model.answer(REFLECTIONS, reflections(user=[reflection(f"Ana wants {CANARY}.")]), reflections())
    model.answer(CONSOLIDATION, consolidation(f"Ana wants {CANARY}."))
    run = on_a_thread(memory.graphs.formation)
    await memory.observe(ANA, turns(CANARY))
    first = await run(force=True)
    await memory.observe(ANA, turns(CANARY, "Well."))
    second = await run(force=True)
    third = await run(force=True)

    assert (first["stored"], first["checks"]["first_pass"]) == ({"fact": 1, "reflection": 1}, 2)
    assert [result["outcome"] for result in first["consolidations"]] == ["saved"]
    nothing = {"superseded": 0, "repeated": 0, "consolidations": [], "stored": {}}
    assert {name: second[name] for name in nothing} == nothing
    assert {name: third[name] for name in (*nothing, "reason", "checks")} == {**nothing, "reason": None, "checks": {}}


async def test_a_second_recall_does_not_show_the_first_ones_results(memory: Mnemic, model: LoopbackModel) -> None:
    await keep(memory)
    run = on_a_thread(memory.graphs.recall)
    first = await run(question=ASKED)
    second = await run(question="Good morning.")

    assert KEPT in text_of(first["context"])
    assert (text_of(second["context"]), second["memories"], second["searched"]) == ("", [], None)


ASKED = "Do you remember what I keep?"
INPUTS: dict[str, dict[str, Any]] = {
    "consolidation": {"scope_key": "user:ana", "force": True},
    "formation": {"force": True},
    "recall": {"question": ASKED},
    "supervisor": {"messages": [HumanMessage(ASKED)]},
}


@pytest.mark.parametrize("exposed", [False, True], ids=["", "control"])
@pytest.mark.parametrize("name", INPUTS)
async def test_what_a_server_is_told_of_checkpoints_holds_no_words_of_memory(
    memory: Mnemic, model: LoopbackModel, name: str, exposed: bool
) -> None:
    model.answer(FACTS, facts(fact(f"Ana keeps {CANARY}.")))
    model.answer(CONSOLIDATION, consolidation(f"Ana wants {CANARY}."))
    says(model, "Honey.")
    await form(memory, model, f"Ana wants {CANARY}.")
    await memory.observe(ANA, turns("I keep it.", "Well."))
    graph: Any = memory.graphs.supervisor() if name == "supervisor" else getattr(memory.graphs, name)
    changes = {"checkpointer": InMemorySaver(), **({"stream_channels": None} if exposed else {})}
    events = graph.copy(update=changes).astream(INPUTS[name], thread(), context=ANA, stream_mode="checkpoints")
    seen = [event async for event in events]

    assert len(seen) > 2
    assert (CANARY in str(seen)) == exposed


def test_each_graph_tells_a_server_of_tracked_channels_alone() -> None:
    for module in (consolidation_module, formation, recall, refinement, supervisor):
        graph: Any = module.graph
        untracked = {name for name, channel in graph.channels.items() if isinstance(channel, UntrackedValue)}
        assert untracked
        assert graph.stream_channels
        assert untracked.isdisjoint(graph.stream_channels_list)


@pytest.fixture
async def nobody(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The DSN of a port that nobody listens on, and a server's environment that names it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dsn = make_conninfo(host="127.0.0.1", port=taken.getsockname()[1], user="mnemic_app", dbname="mnemic")
        monkeypatch.setenv("MNEMIC_DATABASE_URL", dsn)
        monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
        monkeypatch.setenv("MNEMIC_POOL_TIMEOUT_SECONDS", "0.3")
        yield dsn
    await resources.close_environment()


async def test_a_recall_before_the_database_is_there_goes_without_memory(
    nobody: str, empty_db: Clone, clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> Any:
        return (await recall.graph.ainvoke({"question": ASKED}, context=ANA))["degraded"]

    for _ in range(2):
        assert await ask() == "no_memory"
    with pytest.raises(DatabaseUnavailableError):  # nothing else goes on without it
        await formation.graph.ainvoke({}, context=ANA)
    monkeypatch.setenv("MNEMIC_POOL_TIMEOUT_SECONDS", "10")
    monkeypatch.setenv("MNEMIC_DATABASE_URL", empty_db.service_dsn)
    with pytest.raises(DatabaseSetupError):  # which does not pass by itself
        await ask()
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_RECALL_LIMIT", "many")
    with pytest.raises(ConfigurationError):
        await ask()
    monkeypatch.delenv("MNEMIC_RECALL_LIMIT")
    assert await ask() is None
