"""A host that streams its graph, tokens and all, neither shows nor spoils what the models write for memory."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from mnemic.models import chat
from mnemic.models.chat import ChatModels
from mnemic.models.structured import run_step
from mnemic.models.tool_calls import run_turn
from mnemic.prompts.refine import RefineInput
from mnemic.prompts.write_consolidation import WRITE_CONSOLIDATION, WriteConsolidationInput
from mnemic.state.errors import ModelOutputError
from mnemic.state.refinement import Budget
from mnemic.state.settings import Settings
from tests.support.loopback import LoopbackModel, calling, offering

SECRET = "Mara's diagnosis"
HALF = f'{{"text": "{SECRET}'
OUTPUT = "WriteConsolidationOutput"


@tool
def shorten(text: str) -> str:
    """Says it in fewer words."""
    raise AssertionError("the tools are shown to the model, and not called")


@pytest.fixture
def server() -> Iterator[LoopbackModel]:
    with LoopbackModel() as server:
        yield server


def models(server: LoopbackModel) -> ChatModels:
    return ChatModels(Settings(base_url=server.base_url, structured_output="function_calling"))


async def streamed(work: Callable[[], Awaitable[Any]]) -> tuple[str, list[Any]]:
    """What somebody sees who streams a graph with this work in a node, and what came of it."""
    done = []

    async def work_on(state: MessagesState) -> dict[str, Any]:
        done.append(await work())
        return {}

    host: Any = StateGraph(MessagesState).add_node("work", work_on).add_edge(START, "work").compile()
    stream = host.astream({"messages": [HumanMessage("hello", id="1")]}, stream_mode="messages")
    return "".join([str(message.text) async for message, _ in stream]), done


async def take_turn(server: LoopbackModel) -> tuple[str, Any]:
    """What was seen of a turn whose model breaks off in a call, and that call's arguments."""
    server.answer(offering("shorten"), calling(("shorten", HALF), text=SECRET))
    budget = Budget(9000, 5000, 0, 2000, 500)
    given = RefineInput(persona="", scope="user", owner="Mara", budget=budget, batch=1, batches=1, ledger=())
    seen, (turn,) = await streamed(lambda: run_turn(given, [shorten], models(server)))
    (call,) = turn.output.calls
    return seen, call.arguments


async def write(server: LoopbackModel, arguments: str) -> str:
    """What was seen of a consolidation that a model wrote so."""
    server.answer(OUTPUT, calling((OUTPUT, arguments), text=SECRET))
    given = WriteConsolidationInput("user", "Mara", current="", reflections=(), word_limit=400, guidance="")
    return (await streamed(lambda: run_step(WRITE_CONSOLIDATION, given, models(server))))[0]


async def test_a_turn_is_not_shown_and_a_call_that_broke_off_is_not_completed(server: LoopbackModel) -> None:
    assert await take_turn(server) == ("", None)


async def test_formation_is_not_shown_and_a_text_that_broke_off_is_no_consolidation(server: LoopbackModel) -> None:
    assert await write(server, HALF + '"}') == ""
    with pytest.raises(ModelOutputError, match="twice: broken JSON"):
        await write(server, HALF)


async def test_control_a_model_bound_as_usual_shows_itself_and_completes_what_broke_off(
    server: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "HIDDEN", {})

    assert await take_turn(server) == (SECRET, {"text": SECRET})
    assert SECRET in await write(server, HALF)  # half a text was taken for the whole, without an error
