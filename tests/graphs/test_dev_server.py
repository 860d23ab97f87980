"""`langgraph dev` with the repository's langgraph.json, asked through the real SDK as Studio asks it; offline."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from tests.support.dev_server import DevServer, dev_environment, running_dev_server
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.scripted import CONSOLIDATION, REFLECTIONS, consolidation, reflection, reflections, turns
from tests.support.server import Clone, Server, cloned
from tests.support.worlds import identity

NODES = {
    "supervisor": {"recall", "agent", "confirm", "tools", "observe"},
    "formation": {
        "gate",
        "extract_facts",
        "find_similar",
        "decide",
        "extract_reflections",
        "extract_observations",
        "save",
        "consolidate",
    },
    "consolidation": {"collect", "write", "save"},
    "recall": {"read_context", "decide", "search", "render"},
    "refinement": {"open", "agent", "tools", "close"},
}
ANA = identity("ana", session="s1")
WISH = "Ana wants short answers."
TEXT = "Ana wants short answers, always."
RULES = ("Ana is never called before nine.", "Ana is never called after six.")
MERGED = "Ana is called between nine and six only."


@pytest.fixture(scope="module")
def dev_server(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """One for all tests: it takes some seconds to start. The rules find the facts, a scripted model the rest."""
    directory = tmp_path_factory.mktemp("host")  # a directory of its own: the server keeps its threads there
    with cloned(server, template) as clone, LoopbackModel() as model:
        model.answer(REFLECTIONS, reflections(user=[reflection(WISH)]))
        model.answer(CONSOLIDATION, consolidation(TEXT))
        model.answer(
            offering("complete_refinement"),
            calling(("consolidate_memories", {"ids_to_merge": [2, 3], "new_content": MERGED})),
            calling(("complete_refinement", {"summary": "Two rules are one."})),
        )
        with running_dev_server(directory, _values(clone, model)) as running:
            yield running


def _values(clone: Clone, model: LoopbackModel) -> dict[str, str]:
    return {
        "MNEMIC_DATABASE_URL": clone.service_dsn,
        "MNEMIC_FAST_MODEL": "offline",
        "MNEMIC_SLOW_MODEL": "openai:gpt-slow",
        "MNEMIC_BASE_URL": model.base_url,
        "MNEMIC_EMBEDDER": "minilm",
        "MNEMIC_POOL_SIZE": "4",
    }


@pytest.fixture
async def client(dev_server: DevServer) -> AsyncIterator[LangGraphClient]:
    async with dev_server.client() as opened:
        yield opened


async def _assistant(client: LangGraphClient, graph: str) -> str:
    (found,) = await client.assistants.search(graph_id=graph)
    return found["assistant_id"]


def test_the_configuration_is_valid(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "langgraph_cli", "validate", "--config", "langgraph.json"]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env=dev_environment(tmp_path, {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "unknown" not in (result.stdout + result.stderr).lower()


@pytest.mark.parametrize("graph", list(NODES))
async def test_every_graph_shows_its_forms_and_its_drawing(client: LangGraphClient, graph: str) -> None:
    assistant = await _assistant(client, graph)
    schemas: Any = await client.assistants.get_schemas(assistant)
    drawing: Any = await client.assistants.get_graph(assistant)

    for name in ("input_schema", "output_schema", "context_schema"):
        assert schemas[name]["properties"], name
    assert schemas["context_schema"]["required"] == ["agent_id"]
    assert (await client.assistants.get(assistant))["description"]
    assert {node["id"] for node in drawing["nodes"]} == NODES[graph] | {"__start__", "__end__"}


async def test_every_graph_runs_on_an_observed_conversation_without_blocking_the_server(
    dev_server: DevServer, client: LangGraphClient
) -> None:
    async with Mnemic.open(**dev_server.settings.model_dump(exclude_unset=True)) as memory:
        await memory.observe(ANA, turns("I live in Lisbon.", "assistant: Lovely.", "Be short, please.", "Thank you."))

    formed = await _run(client, "formation", {"force": True})
    assert (formed["reason"], formed["formed"], formed["pending"]) == ("forced", 4, 0)
    assert formed["stored"]["reflection"] == 1

    written = await _run(client, "consolidation", {"scope_key": "user:ana", "force": True})
    assert written == {"scope_key": "user:ana", "outcome": "saved", "absorbed": 1, "kept_share": 1.0, "problem": None}

    async with Mnemic.open(**dev_server.settings.model_dump(exclude_unset=True)) as memory:
        for rule in RULES:
            await memory.remember(ANA, rule, category="constraints", kind="core")
    refined = await _run(client, "refinement", {"scope_key": "user:ana", "force": True})
    assert (refined["outcome"], refined["ended"], refined["resumed"]) == ("ended", "completed", False)
    assert (refined["merged"], refined["memories_before"], refined["memories_after"]) == (2, 3, 2)

    recalled = await _run(client, "recall", {"question": "Where did I say that I live?"})
    assert recalled["searched"] == "phrase"
    assert TEXT in recalled["context"]
    assert MERGED in recalled["context"]
    assert "Lisbon" in recalled["context"]
    assert recalled["memories"]
    assert recalled["over_budget"] == []

    assert "BlockingError" not in "".join(dev_server.log)


async def test_a_run_without_an_identity_is_told_what_is_missing(client: LangGraphClient) -> None:
    with pytest.raises(Exception, match="agent_id"):
        await _run(client, "recall", {"question": "Where?"}, who=None)


async def test_without_a_key_everybody_is_let_in_and_told_once_that_this_is_for_development(
    dev_server: DevServer, client: LangGraphClient
) -> None:
    for _ in range(2):
        await client.threads.search()
    assert "".join(dev_server.log).count("MNEMIC_SERVER_KEY is not set") == 1
    health: Any = await client.http.get("/mnemic/health")
    assert health["database"] == "ok"


async def _run(client: LangGraphClient, graph: str, given: dict[str, Any], who: Identity | None = ANA) -> Any:
    context: Any = who.model_dump(mode="json") if who else None
    return await client.runs.wait(None, graph, input=given, context=context)
