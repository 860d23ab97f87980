"""The graphs on a server: opened at first use, every run of a thread begins anew, and its saver holds no words."""

import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from psycopg.conninfo import make_conninfo

from mnemic.graphs import consolidation as consolidation_module
from mnemic.graphs import formation, recall, refinement, supervisor
from mnemic.operations.run import resources
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConfigurationError, DatabaseSetupError, DatabaseUnavailableError, MnemicError
from tests.support.agents import says
from tests.support.loopback import LoopbackModel
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
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
CANARY = "Zinnober"


def on_a_thread(graph: Any) -> tuple[Any, InMemorySaver]:
    """A call of the graph on one and the same thread, as LangGraph Server makes it."""
    saver = InMemorySaver()
    served = graph.copy(update={"checkpointer": saver})

    async def run(given: dict[str, Any]) -> Any:
        return await served.ainvoke(given, {"configurable": {"thread_id": "t1"}}, context=ANA)

    return run, saver


async def form(memory: Mnemic, model: LoopbackModel, text: str) -> None:
    model.answer(REFLECTIONS, reflections(user=[reflection(text)]))
    await memory.observe(ANA, turns(text))
    await memory.form(ANA)


async def test_a_second_consolidation_is_a_run_of_its_own(memory: Mnemic, model: LoopbackModel) -> None:
    run, saver = on_a_thread(memory.graphs.consolidation)
    key = {"scope_key": "user:ana", "force": True}
    await form(memory, model, f"Ana wants {CANARY}.")
    model.answer(CONSOLIDATION, consolidation(f"Ana wants {CANARY}."), consolidation(f"Ana wants {CANARY} and bees."))
    first = await run(key)
    await form(memory, model, "Ana wants bees.")
    second = await run(key)
    third = await run(key)

    assert [result["outcome"] for result in (first, second, third)] == ["saved", "saved", "not_due"]
    assert await contents(memory, ANA, "consolidation") == [f"Ana wants {CANARY} and bees."]
    assert CANARY not in f"{dict(saver.storage)} {dict(saver.writes)} {saver.blobs}"


async def test_a_second_formation_reports_its_own_figures(memory: Mnemic, model: LoopbackModel) -> None:
    await memory.configure_agent(ANA, user_threshold=1)
    model.answer(FACTS, facts(fact(f"Ana keeps {CANARY}.")), facts())
    model.answer(REFLECTIONS, reflections(user=[reflection(f"Ana wants {CANARY}.")]), reflections())
    model.answer(CONSOLIDATION, consolidation(f"Ana wants {CANARY}."))
    run, saver = on_a_thread(memory.graphs.formation)
    await memory.observe(ANA, turns(CANARY))
    first = await run({"force": True})
    await memory.observe(ANA, turns(CANARY, "Well."))
    second = await run({"force": True})
    third = await run({"force": True})

    assert (first["stored"], first["checks"]["first_pass"]) == ({"fact": 1, "reflection": 1}, 2)
    assert [result["outcome"] for result in first["consolidations"]] == ["saved"]
    nothing = {"superseded": 0, "repeated": 0, "consolidations": [], "stored": {}}
    assert {name: second[name] for name in nothing} == nothing
    assert {name: third[name] for name in (*nothing, "reason", "checks")} == {**nothing, "reason": None, "checks": {}}
    assert CANARY not in f"{dict(saver.storage)} {dict(saver.writes)} {saver.blobs}"


async def test_a_second_recall_does_not_show_the_first_ones_results(memory: Mnemic, model: LoopbackModel) -> None:
    model.answer(FACTS, facts(fact(f"Ana keeps {CANARY}.")))
    await memory.observe(ANA, turns("I keep it."))
    await memory.form(ANA)
    run, saver = on_a_thread(memory.graphs.recall)
    first = await run({"question": "Do you remember what I keep?"})
    second = await run({"question": "Good morning."})

    assert CANARY in first["context"]
    assert (second["context"], second["memories"], second["searched"]) == ("", [], None)
    assert CANARY not in f"{dict(saver.storage)} {dict(saver.writes)} {saver.blobs}"


QUESTION = "Do you remember what I keep?"
INPUTS: dict[str, dict[str, Any]] = {
    "consolidation": {"scope_key": "user:ana", "force": True},
    "formation": {"force": True},
    "recall": {"question": QUESTION},
    "supervisor": {"messages": [HumanMessage(QUESTION)]},
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
    events = graph.copy(update=changes).astream(
        INPUTS[name], {"configurable": {"thread_id": "t1"}}, context=ANA, stream_mode="checkpoints"
    )
    seen = [event async for event in events]

    assert len(seen) > 2
    assert (CANARY in str(seen)) == exposed


@pytest.mark.parametrize("module", [consolidation_module, formation, recall, refinement, supervisor])
def test_each_graph_tells_a_server_of_tracked_channels_alone(module: Any) -> None:
    graph = module.graph
    untracked = {name for name, channel in graph.channels.items() if isinstance(channel, UntrackedValue)}
    assert untracked
    assert graph.stream_channels
    assert untracked.isdisjoint(graph.stream_channels_list)


ANA = identity("ana", session="s1")


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


async def ask() -> Any:
    return await recall.graph.ainvoke({"question": "Do you remember me?"}, context=ANA)


async def test_a_recall_before_the_database_is_there_goes_without_memory(
    nobody: str, clean_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert (await ask())["degraded"] == "no_memory"
    with pytest.raises(DatabaseUnavailableError):  # nothing else goes on without it
        await formation.graph.ainvoke({}, context=ANA)
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_POOL_TIMEOUT_SECONDS", "10")
    assert (await ask())["degraded"] is None


@pytest.mark.parametrize(
    ("variable", "error"), [("MNEMIC_RECALL_LIMIT", ConfigurationError), ("MNEMIC_DATABASE_URL", DatabaseSetupError)]
)
async def test_what_does_not_pass_by_itself_is_raised(
    nobody: str, empty_db: Clone, monkeypatch: pytest.MonkeyPatch, variable: str, error: type[MnemicError]
) -> None:
    monkeypatch.setenv("MNEMIC_POOL_TIMEOUT_SECONDS", "10")
    monkeypatch.setenv(variable, empty_db.service_dsn)
    with pytest.raises(error):
        await ask()
