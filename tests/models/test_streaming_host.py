"""A host that streams its graph, tokens and all, neither shows nor spoils what the models write for memory."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
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
from mnemic.prompts.write_consolidation import WRITE_CONSOLIDATION, DatedText, WriteConsolidationInput
from mnemic.state.errors import ModelOutputError
from mnemic.state.refinement import Budget, ToolCall
from mnemic.state.settings import Settings
from tests.support.loopback import LoopbackModel, calling, offering

SECRET = "Mara's diagnosis"
HALF = f'{{"text": "{SECRET}'
REFINE_INPUT = RefineInput(
    persona="", scope="user", owner="Mara", budget=Budget(9000, 5000, 0, 2000, 500), batch=1, batches=1, ledger=()
)
WRITE_INPUT = WriteConsolidationInput(
    scope="user",
    owner="Mara",
    current="",
    reflections=(DatedText(dated=datetime(2026, 5, 8, tzinfo=UTC), content="Mara wants short answers."),),
    word_limit=400,
    guidance="",
)


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


async def seen_of(work: Callable[[], Awaitable[Any]]) -> str:
    """What somebody sees who streams a graph with this work in a node."""

    async def work_on(state: MessagesState) -> dict[str, Any]:
        await work()
        return {}

    host: Any = StateGraph(MessagesState).add_node("work", work_on).add_edge(START, "work").compile()
    stream = host.astream({"messages": [HumanMessage("hello", id="1")]}, stream_mode="messages")
    return "".join([str(message.text) async for message, _ in stream])


async def take_turn(server: LoopbackModel) -> tuple[tuple[ToolCall, ...], str]:
    """The calls of a turn, and what was seen of it."""
    taken: list[ToolCall] = []

    async def turn() -> None:
        taken.extend((await run_turn(REFINE_INPUT, [shorten], models(server))).output.calls)

    seen = await seen_of(turn)
    return tuple(taken), seen


async def test_a_turn_is_not_shown(server: LoopbackModel) -> None:
    server.answer(offering("shorten"), calling(("shorten", {"text": SECRET}), text=SECRET))

    _, seen = await take_turn(server)

    assert seen == ""


async def test_a_call_that_broke_off_is_not_completed(server: LoopbackModel) -> None:
    server.answer(offering("shorten"), calling(("shorten", HALF)))

    (call,), _ = await take_turn(server)

    assert (call.name, call.arguments) == ("shorten", None)


async def test_control_a_model_bound_as_usual_shows_itself_and_completes_what_broke_off(
    server: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "HIDDEN", {})
    server.answer(offering("shorten"), calling(("shorten", HALF), text=SECRET))

    (call,), seen = await take_turn(server)

    assert seen == SECRET
    assert (call.name, call.arguments) == ("shorten", {"text": SECRET})


async def write(server: LoopbackModel) -> None:
    await run_step(WRITE_CONSOLIDATION, WRITE_INPUT, models(server))


async def test_formation_is_not_shown(server: LoopbackModel) -> None:
    server.answer("WriteConsolidationOutput", calling(("WriteConsolidationOutput", HALF + '"}'), text=SECRET))

    assert await seen_of(lambda: write(server)) == ""


async def test_a_text_that_broke_off_is_no_consolidation(server: LoopbackModel) -> None:
    server.answer("WriteConsolidationOutput", calling(("WriteConsolidationOutput", HALF)))

    with pytest.raises(ModelOutputError, match="twice: broken JSON"):
        await seen_of(lambda: write(server))


async def test_control_a_model_that_streams_takes_half_a_text_for_the_whole(
    server: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "HIDDEN", {"tags": ["nostream"]})
    server.answer("WriteConsolidationOutput", calling(("WriteConsolidationOutput", HALF)))

    await seen_of(lambda: write(server))  # no error
