"""The scripted server itself: what other tests rely on and would not notice."""

import contextlib

import pytest
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from mnemic.models.embedders import make_embedder
from mnemic.state.settings import Settings
from tests.support.loopback import LoopbackModel


def chat(server: LoopbackModel) -> ChatOpenAI:
    return ChatOpenAI(
        model="m", base_url=server.base_url, api_key=SecretStr("k"), max_retries=0, temperature=None, stream_usage=True
    )


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
