"""An embedder that costs next to nothing: every word has a direction of its own, a text is the sum of its words."""

import zlib
from array import array
from collections.abc import Sequence
from functools import cache
from math import sqrt

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from mnemic.memory.text.bands import Bands
from mnemic.models.embedders.vectors import Vector

Floats = NDArray[np.float32]

DIMENSIONS = 384
_DIRECTIONS = 8192


class WordEmbedder:
    """Deterministic, some 10 µs a text: what is left of a measurement is framework and storage."""

    name = f"words:{DIMENSIONS}"
    dimensions = DIMENSIONS
    local = True
    #: Two sentences of one topic are no case for the decision step.
    bands = Bands(auto=0.999, check=0.998, fallback=0.997)

    def __init__(self) -> None:
        self._directions = np.random.default_rng(DIMENSIONS).standard_normal((_DIRECTIONS, DIMENSIONS), np.float32)

    def vector(self, text: str) -> Floats:
        """Return a unit vector for a program written by hand."""
        summed = self._directions[[_place(word) for word in text.split()]].sum(axis=0)
        return np.asarray(summed / sqrt(summed @ summed), dtype=np.float32)

    def matrix(self, texts: Sequence[str]) -> Floats:
        """Return a row for each text."""
        return np.stack([self.vector(text) for text in texts])

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """As the product's own embedders give vectors."""
        return [array("f", self.vector(text).tobytes()) for text in texts]


@cache
def _place(word: str) -> int:
    return zlib.crc32(word.encode()) % _DIRECTIONS


class LangChainEmbedder(Embeddings):
    """As LangGraph's store and mem0 ask for vectors: lists of floats."""

    def __init__(self, embedder: WordEmbedder) -> None:
        self._embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a list for each text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """One list."""
        vector: list[float] = self._embedder.vector(text).tolist()
        return vector
