"""Unit vectors, checked, as every embedder returns them."""

import math
from array import array
from collections.abc import Iterable, Sequence

from mnemic.state.errors import EmbeddingError, EmbeddingInputError

#: Preferably an array of single floats: to make and send 100 vectors of 384 numbers takes 0.1 ms, and 1.7 ms as tuples
#: of Python floats. The database stores fewer digits than either.
Vector = Sequence[float]


def unit_vectors(vectors: Iterable[Sequence[float]], *, texts: int, dimensions: int) -> list[Vector]:
    """Return the vectors at length 1, as arrays of single floats.

    Raises:
        EmbeddingInputError: if the number of vectors differs from that of the texts, or a vector is empty, zero, not
            finite or not of numbers.
        EmbeddingError: if a vector has another length.
    """
    units: list[Vector] = []
    for vector in vectors:
        if isinstance(vector, Sequence) and len(vector) not in (0, dimensions):
            raise EmbeddingError(f"the embedding model returned {len(vector)} dimensions, not {dimensions}")
        if not isinstance(vector, Sequence) or not all(isinstance(value, int | float) for value in vector):
            raise EmbeddingInputError("the embedding model returned a vector that is not of numbers")
        length = math.hypot(*vector)
        if not math.isfinite(length):
            raise EmbeddingInputError("the embedding model returned a vector that is not finite")
        if length == 0:
            raise EmbeddingInputError("the embedding model returned a zero vector")
        units.append(array("f", [value / length for value in vector]))
    if len(units) != texts:
        raise EmbeddingInputError(f"the embedding model returned {len(units)} vectors for {texts} texts")
    return units
