"""Vectors on the wire: binary, never lists of Python floats as text. What is stored and compared are half floats."""

from array import array
from collections.abc import Iterable, Sequence

from pgvector import HalfVector, Vector


class SingleVector(Vector):
    """A vector of single floats, made of any sequence; of an array of them as it is, where pgvector wants a list."""

    def __init__(self, vector: Sequence[float]) -> None:
        self._value = array("f", vector)


class HalfVectors(list[HalfVector | SingleVector | None]):
    """An array of vectors for `halfvec[]`; None where an embedding is pending."""


def half_vector(vector: Sequence[float]) -> HalfVector:
    """One vector as Postgres stores it."""
    return HalfVector(list(vector))


def half_vectors(vectors: Iterable[Sequence[float] | None]) -> HalfVectors:
    """Vectors in order, which the server rounds to half floats: at 384 numbers 1 µs each, where Python takes 10."""
    return HalfVectors(None if vector is None else SingleVector(vector) for vector in vectors)
