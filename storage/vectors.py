"""Vectors on the wire: binary half floats, never lists of Python floats as text."""

from collections.abc import Iterable, Sequence

from pgvector import HalfVector


class HalfVectors(list[HalfVector | None]):
    """An array of vectors; None where an embedding is pending."""


def half_vector(vector: Sequence[float]) -> HalfVector:
    """One vector as Postgres stores it."""
    return HalfVector(list(vector))


def half_vectors(vectors: Iterable[Sequence[float] | None]) -> HalfVectors:
    """Vectors in order."""
    return HalfVectors(None if vector is None else half_vector(vector) for vector in vectors)
