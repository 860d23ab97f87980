"""The scripted server itself: what other tests rely on."""

import contextlib

import pytest
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.messages import AIMessageChunk, ToolCall
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from mnemic.models.embedders import make_embedder
from mnemic.state.settings import Settings
from tests.support.loopback import LoopbackModel


def chat(server: LoopbackModel) -> ChatOpenAI:
    return ChatOpenAI(
        model="m", base_url=server.base_url, api_key=SecretStr("k"), max_retries=0, temperature=None, stream_usage=True
    )


async def test_answers_are_routed_by_what_is_asked_and_given_in_turn() -> None:
    with LoopbackModel() as server:
        server.answer("weather", "rain")
        server.answer(lambda request: request["messages"][-1]["content"] == "time", "noon", lambda _: "one")

        heard = [(await chat(server).ainvoke(question)).text for question in ("time", "weather", "time", "time")]

    assert heard == ["noon", "rain", "one", "one"]
    assert len(server.chat_requests) == 4


async def test_a_streamed_answer_comes_in_pieces_with_its_usage() -> None:
    with LoopbackModel() as server:
        server.answer("hello", "good morning  to you")

        pieces = [piece async for piece in chat(server).astream("hello")]

    assert len(pieces) > 3
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    assert whole.text == "good morning  to you"
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] == 10


async def streamed_calls(model: ChatOpenAI) -> list[ToolCall]:
    whole: AIMessageChunk | None = None
    async for piece in model.astream("hello"):
        whole = piece if whole is None else whole + piece
    return whole.tool_calls if whole else []


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_call_arrives_whole(streamed: bool) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "remember", "arguments": '{"text": "x"}'}}
    with LoopbackModel() as server:
        server.answer("hello", {"content": None, "tool_calls": [call]})
        model = chat(server)

        if streamed:
            calls = await streamed_calls(model)
        else:
            calls = (await model.ainvoke("hello")).tool_calls

    assert [(made["name"], made["args"]) for made in calls] == [("remember", {"text": "x"})]


async def test_a_request_that_fits_no_route_fails_the_test() -> None:
    async def forgotten_route() -> None:
        with LoopbackModel() as server:
            question = chat(server).ainvoke("hello")
            with contextlib.suppress(ModelInvalidRequestError):
                await question

    with pytest.raises(AssertionError, match="no route"):
        await forgotten_route()


async def test_embeddings_put_texts_with_common_words_near_one_another() -> None:
    with LoopbackModel() as server:
        embedder = make_embedder(Settings(base_url=server.base_url, embedder="openai:e", embedder_dimensions=256))

        swims, swam, law = await embedder.embed(["Mara swims daily", "Mara swims", "Wren studies law"])

    assert sum(a * b for a, b in zip(swims, swam, strict=True)) > 0.7
    assert sum(a * b for a, b in zip(swims, law, strict=True)) < 0.3
