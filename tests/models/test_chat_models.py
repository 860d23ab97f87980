"""Which model a tier has, what is imported before it is needed, and what a streaming host shows of its words."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import SecretStr

from mnemic import Identity, Mnemic, __version__
from mnemic.models import chat
from mnemic.models.chat import ChatModels
from mnemic.models.structured import run_step
from mnemic.models.tool_calls import run_turn
from mnemic.prompts.consolidation.write_consolidation import WRITE_CONSOLIDATION, WriteConsolidationInput
from mnemic.prompts.refinement.refine import RefineInput
from mnemic.state.errors import ConfigurationError, ModelOutputError
from mnemic.state.model_settings import Tier
from mnemic.state.refinement import Budget
from mnemic.state.settings import Settings
from tests.support.loopback import LoopbackModel, calling, offering
from tests.support.server import Clone
from tests.support.worlds import BEGAN

KEY = SecretStr("k")
MARCH = date(2026, 3, 2)


@pytest.mark.parametrize(
    ("settings", "description"),
    [
        (Settings(), "offline rules"),
        (Settings(api_key=KEY), "openai:gpt-5-mini / openai:gpt-5.1"),
        (Settings(fast_model="openai:a", slow_model="openai:a"), "openai:a"),
        (Settings(fast_model="offline", slow_model="openai:b"), "offline rules / openai:b"),
    ],
)
def test_the_models_in_use_are_named(settings: Settings, description: str) -> None:
    assert ChatModels(settings).describe() == description


@pytest.mark.parametrize("tier", ["fast", "slow", "agent"])
def test_tier_has_one_model_that_a_host_stream_hides_unless_it_is_visible(tier: Tier) -> None:
    models = ChatModels(Settings(api_key=KEY, slow_model="openai:slow", model_timeout_seconds=7))
    made = [models.get(tier), models.get(tier, shown=True)]

    assert [(model.tags, model.disable_streaming) for model in made if model] == [(["nostream"], True), (None, False)]
    assert made[0] is models.get(tier)
    assert getattr(made[0], "request_timeout", None) == 7
    assert getattr(models.get("slow"), "model_name", None) == "slow"


def test_an_agents_own_model_is_made_once_for_all_who_name_it() -> None:
    models = ChatModels(Settings(api_key=KEY, agent_model="openai:common"))
    own = models.with_settings(Settings(api_key=KEY, agent_model="openai:own"))
    again = models.with_settings(Settings(api_key=KEY, agent_model="openai:own"))

    assert getattr(own.get("agent"), "model_name", None) == "own"
    assert own.get("agent") is again.get("agent")
    assert own.get("slow") is models.get("slow")
    assert getattr(models.get("agent"), "model_name", None) == "common"
    assert models.with_settings(Settings(agent_model="offline")).get("agent") is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("openai:gpt-5-mini", "MNEMIC_FAST_MODEL names an OpenAI model, and there is no key"),
        ("nowhere:model", "which cannot be used"),
        ("anthropic:model", "its package is missing.*langchain-anthropic"),
    ],
)
def test_a_model_that_cannot_be_had_is_refused_with_what_to_do(name: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        ChatModels(Settings(fast_model=name)).get("fast")


@pytest.mark.parametrize(
    ("name", "problem"), [("antropic:model", "anthropic"), ("anthropic:model", "pip install langchain-anthropic")]
)
async def test_a_provider_that_is_not_there_is_named_at_open(clean_db: Clone, name: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"MNEMIC_SLOW_MODEL.*{problem}"):
        async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash", slow_model=name):
            pass
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as memory:
        with pytest.raises(ConfigurationError, match=problem):
            await memory.admin.configure_agent(Identity(agent_id="guide"), agent_model=name)


# -- what is not needed is not imported: a second of start-up and 200 MB

#: What only the categories, the command line, the offline model, a configured model or its tools need.
LATER = (
    *("langchain_openai", "openai", "onnxruntime", "numpy", "tokenizers", "tiktoken"),
    *("yaml", "typer", "mnemic.models.offline", "mnemic.service", "mnemic.storage.embedded"),
    *("mnemic.storage.schema", "mnemic.state.governance"),
    *("langchain_core.language_models.chat_models", "langchain_core.tools.base"),
)


def test_importing_the_graphs_imports_no_module_that_only_opening_needs() -> None:
    assert loaded_by("mnemic.graphs.recall, mnemic.graphs.formation") == ""
    assert loaded_by("mnemic.memory.runtime.plain_yaml") == "yaml"  # the check sees what is imported


def test_the_version_is_printed_without_importing_the_commands() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--version']; from mnemic.service.cli import main; main();"
        " print(*[name for name in ('typer', 'langchain_core', 'langgraph', 'psycopg') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [__version__, ""]


def loaded_by(modules: str) -> str:
    code = f"import sys, {modules}; print(*[name for name in {LATER!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


# -- a host that streams its graph, tokens and all, neither shows nor spoils what the models write for memory

SECRET = "Mara's diagnosis"
HALF = f'{{"text": "{SECRET}'
OUTPUT = "WriteConsolidationOutput"


@tool
def shorten(text: str) -> str:
    """Says it in fewer words."""
    raise AssertionError("the tools are shown to the model, and not called")


def models(endpoint: LoopbackModel) -> ChatModels:
    return ChatModels(Settings(base_url=endpoint.base_url, structured_output="function_calling"))


async def streamed(work: Callable[[], Awaitable[Any]]) -> tuple[str, list[Any]]:
    """What somebody sees who streams a graph with this work in a node, and what came of it."""
    done = []

    async def work_on(state: MessagesState) -> dict[str, Any]:
        done.append(await work())
        return {}

    host: Any = StateGraph(MessagesState).add_node("work", work_on).add_edge(START, "work").compile()
    stream = host.astream({"messages": [HumanMessage("hello", id="1")]}, stream_mode="messages")
    return "".join([str(message.text) async for message, _ in stream]), done


async def take_turn(endpoint: LoopbackModel) -> tuple[str, Any]:
    """What was seen of a turn whose model breaks off in a call, and that call's arguments."""
    endpoint.answer(offering("shorten"), calling(("shorten", HALF), text=SECRET))
    budget = Budget(9000, 5000, 0, 2000, 500, 0)
    given = RefineInput("harbor", "", BEGAN.date(), "user", "mara", budget, batch=1, batches=1, ledger=())
    seen, (turn,) = await streamed(lambda: run_turn(given, [shorten], models(endpoint)))
    (call,) = turn.output.calls
    return seen, call.arguments


async def write(endpoint: LoopbackModel, arguments: str) -> str:
    """What was seen of a consolidation that a model wrote so."""
    endpoint.answer(OUTPUT, calling((OUTPUT, arguments), text=SECRET))
    given = WriteConsolidationInput("user", "Mara", "", reflections=(), word_limit=400, guidance="", today=MARCH)
    return (await streamed(lambda: run_step(WRITE_CONSOLIDATION, given, models(endpoint))))[0]


async def test_memory_calls_are_not_streamed_and_a_cut_answer_is_not_completed(
    endpoint: LoopbackModel,
) -> None:
    assert await take_turn(endpoint) == ("", None)
    assert await write(endpoint, HALF + '"}') == ""
    with pytest.raises(ModelOutputError, match="twice: broken JSON"):
        await write(endpoint, HALF)


async def test_control_a_plainly_bound_model_streams_and_completes_a_cut_answer(
    endpoint: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "HIDDEN", {})

    assert await take_turn(endpoint) == (SECRET, {"text": SECRET})
    assert SECRET in await write(endpoint, HALF)  # half a text was taken for the whole, without an error
