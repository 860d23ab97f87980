"""The test embedder: the same everywhere, and alike only where letters are."""

import math

import pytest

from mnemic.models.embedders import Vector, make_embedder
from mnemic.state.settings import Settings


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_texts_with_common_words_are_nearer_than_others() -> None:
    embedder = make_embedder(Settings(embedder="hash"))

    berths, berth, invoice = await embedder.embed(["Mara rents two berths", "Mara's berth", "an invoice is due"])

    assert dot(berths, berth) > dot(berths, invoice) + 0.2


async def test_vectors_are_the_same_on_every_machine() -> None:
    embedder = make_embedder(Settings(embedder="hash"))

    [vector] = await embedder.embed(["Mara"])

    places = sorted(range(len(vector)), key=lambda place: -abs(vector[place]))[:2]
    assert [(place, round(vector[place], 3)) for place in places] == [(116, 0.854), (166, -0.256)]


@pytest.mark.parametrize("text", ["", "!?", "🦜"])
async def test_every_text_has_a_unit_vector(text: str) -> None:
    [vector] = await make_embedder(Settings(embedder="hash")).embed([text])

    assert math.hypot(*vector) == pytest.approx(1)
