"""The OpenAI-compatible embedder against a real client and a loopback server."""

import math
from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from mnemic.models.embedders import Embedder, make_embedder
from mnemic.state.errors import ConfigurationError, EmbeddingError, EmbeddingInputError, ModelOutputError
from mnemic.state.settings import Settings
from tests.support.loopback import LoopbackModel, Request


@pytest.fixture
def server() -> Iterator[LoopbackModel]:
    with LoopbackModel() as server:
        yield server


def embedder_for(server: LoopbackModel, dimensions: int = 64) -> Embedder:
    return make_embedder(Settings(base_url=server.base_url, embedder="openai:small", embedder_dimensions=dimensions))


async def test_texts_become_unit_vectors_of_the_configured_length_in_one_request(server: LoopbackModel) -> None:
    embedder = embedder_for(server)

    first, second, third = await embedder.embed(["Mara swims", "Jonas reads", "Mara swims"])

    assert embedder.name == "openai:small:64"
    assert {len(first), len(second), len(third), embedder.dimensions} == {64}
    assert math.hypot(*second) == pytest.approx(1)
    assert first == third != second
    assert len(server.embedding_requests) == 1
    assert server.embedding_requests[0]["dimensions"] == 64
    assert server.embedding_requests[0]["input"] == ["Mara swims", "Jonas reads", "Mara swims"]


async def test_nothing_to_embed_asks_nobody(server: LoopbackModel) -> None:
    assert await embedder_for(server).embed([]) == []
    assert server.embedding_requests == []


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (lambda _: [[1.0] * 64], "1 vectors for 2 texts"),
        (lambda _: [[1.0] * 65] * 2, "returned 65 dimensions.*MNEMIC_EMBEDDER_DIMENSIONS"),
        (lambda _: [[1.0] * 64, [1.0] * 63], "63 dimensions where 64"),
        (lambda _: [[1.0] * 64, [0.0] * 64], "zero vector"),
        (lambda _: [[1.0] * 64, [math.nan] * 64], "not finite"),
        (lambda _: [[1.0] * 64, [math.inf] * 64], "not finite"),
    ],
)
async def test_an_unusable_vector_is_refused(
    server: LoopbackModel, vectors: Callable[[Request], list[list[float]]], problem: str
) -> None:
    server.answer_embeddings(vectors)

    with pytest.raises(EmbeddingError, match=problem):
        await embedder_for(server).embed(["a", "b"])


@pytest.mark.parametrize(
    ("answer", "kind"), [(429, "rate limit"), (401, "key refused"), (409, "request refused"), (b"<html>", "protocol")]
)
async def test_a_failing_endpoint_is_named_by_kind_and_never_by_content(
    server: LoopbackModel, answer: int | bytes, kind: str
) -> None:
    server.answer_embeddings(answer)

    with pytest.raises(EmbeddingError, match=f"openai:small:64 could not be used: .*{kind}") as caught:
        await embedder_for(server).embed(["Mara's diagnosis"])

    assert not isinstance(caught.value, ModelOutputError)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_refused_texts_are_told_from_an_endpoint_that_is_away(server: LoopbackModel, status: int) -> None:
    server.answer_embeddings(status)

    with pytest.raises(EmbeddingInputError, match=f"refused these texts: .*HTTP {status}.*MNEMIC_EMBEDDER") as caught:
        await embedder_for(server).embed(["Mara's diagnosis"])

    assert isinstance(caught.value, ModelOutputError)  # it counts as a try
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert len(server.embedding_requests) == 1


def test_more_dimensions_than_can_be_stored_are_refused_by_the_settings_name() -> None:
    with pytest.raises(ConfigurationError, match="embedder_dimensions"):
        Settings(embedder_dimensions=1025)
    unchecked = Settings(api_key=SecretStr("k"), embedder="openai:large").model_copy(
        update={"embedder_dimensions": 3072}
    )
    with pytest.raises(ConfigurationError, match="MNEMIC_EMBEDDER_DIMENSIONS is 3072; at most 1024"):
        make_embedder(unchecked)


def test_an_openai_embedder_needs_a_key_or_a_base_url() -> None:
    with pytest.raises(ConfigurationError, match="MNEMIC_EMBEDDER names an OpenAI model, and there is no key"):
        make_embedder(Settings(embedder="openai:small"))


def test_an_unknown_embedder_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="'glove'; it may be openai:MODEL, minilm or hash"):
        make_embedder(Settings(embedder="glove"))
