"""Vectors of texts that an embedding model takes only in smaller batches or in shorter parts."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from mnemic.models.embedders.vectors import Vector, unit_vectors
from mnemic.state.errors import EmbeddingInputError

_LOG = logging.getLogger("mnemic")
#: Refused requests of one call. The texts that are left then get no vector.
MAX_REFUSALS: Final = 64
#: Times that a refused text is halved: eight parts at most.
MAX_HALVINGS: Final = 3
#: Characters. A shorter part is refused for its content and not for its length.
MIN_PART_LENGTH: Final = 50


class _Model(Protocol):
    async def embed(self, texts: Sequence[str]) -> list[Vector]: ...


async def embed_each(model: _Model, texts: Sequence[str]) -> list[Vector | None]:
    """Return one unit vector for each text, in order, or None for a text that the model refuses.

    A refused batch is halved until the refused text is alone. A text that is refused alone is halved at a space; its
    vector is the mean of the vectors of its parts, weighted by their lengths. A warning gives the reason of a refusal.

    Raises:
        EmbedderUnavailableError: if the model does not respond.
        EmbeddingError: if a setting of the model is wrong.
    """
    requests = _Requests(model)
    vectors = await requests.embed_batch(texts) if texts else []
    if missing := sum(vector is None for vector in vectors):
        _LOG.warning("%d of %d texts get no vector for now: %s", missing, len(texts), requests.reason)
    return vectors


class _Requests:
    """Requests for the vectors of one batch."""

    def __init__(self, model: _Model) -> None:
        self._model = model
        self._refusals_left = MAX_REFUSALS
        #: The error of the last refusal, without words of the texts.
        self.reason = ""

    async def embed_batch(self, texts: Sequence[str]) -> list[Vector | None]:
        if (vectors := await self._embed(texts)) is not None:
            return [*vectors]
        if len(texts) == 1:
            return [await self._embed_in_parts(texts[0])]
        middle = len(texts) // 2
        return await self.embed_batch(texts[:middle]) + await self.embed_batch(texts[middle:])

    async def _embed_in_parts(self, text: str) -> Vector | None:
        parts = [text]
        for _ in range(MAX_HALVINGS):
            halves: list[str] = []
            for part in parts:
                halves += _halves(part)
            if len(halves) == len(parts):
                return None
            parts = halves
            if (vectors := await self._embed(parts)) is not None:
                return _weighted_mean(parts, vectors)
        return None

    async def _embed(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return the vectors, or None if the model refuses the request or has refused too many."""
        if self._refusals_left:
            try:
                return await self._model.embed(texts)
            except EmbeddingInputError as error:
                self.reason = str(error)
            self._refusals_left -= 1
        return None


def _halves(text: str) -> list[str]:
    if len(text) < 2 * MIN_PART_LENGTH:
        return [text]
    middle = len(text) // 2
    space = text.rfind(" ", MIN_PART_LENGTH, middle)
    cut = middle if space < 0 else space
    return [text[:cut], text[cut:]]


def _weighted_mean(parts: Sequence[str], vectors: Sequence[Vector]) -> Vector | None:
    total = [0.0] * len(vectors[0])
    for part, vector in zip(parts, vectors, strict=True):
        for place, value in enumerate(vector):
            total[place] += len(part) * value
    with suppress(EmbeddingInputError):  # the parts cancel one another out
        return unit_vectors([total], texts=1, dimensions=len(total))[0]
    return None
