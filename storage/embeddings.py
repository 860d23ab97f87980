"""Vectors of entries that were stored without one. The caller owns the transaction.

A vector changes no memory, so it is filled without an operation and leaves no row in the history.
"""

from collections.abc import Sequence

from mnemic.state.records import PendingText
from mnemic.storage.transaction import ScopedTransaction, half_vectors, load_statements

_SQL = load_statements("embeddings")


async def are_due(scoped: ScopedTransaction) -> bool:
    """Return whether an entry of the visible scope keys may be embedded now."""
    return bool(await scoped.tuples(_SQL["are_due"], {}))


async def claim(scoped: ScopedTransaction, *, most: int) -> list[PendingText]:
    """Return the texts that have waited longest for a vector, and let no other caller claim them for a while."""
    return await scoped.rows(PendingText, _SQL["claim"], {"most": most})


async def fill(
    scoped: ScopedTransaction, texts: Sequence[PendingText], vectors: Sequence[Sequence[float] | None], *, model: str
) -> int:
    """Store the vectors and return their number. A text that was changed or erased meanwhile gets none.

    Args:
        vectors: of the texts, in order; None for a text that the model refuses, which waits longer each time.
        model: name of the embedding model.
    """
    values = {
        "ids": [text.item_id for text in texts],
        "pieces": [text.piece for text in texts],
        "hashes": [text.content_hash for text in texts],
        "vectors": half_vectors(vectors),
        "model": model,
    }
    rows = await scoped.tuples(_SQL["fill"], values)
    return sum(is_filled for (is_filled,) in rows)


async def make_due(scoped: ScopedTransaction) -> None:
    """Let every entry without a vector be embedded now, and forget how often it was refused."""
    await scoped.execute(_SQL["make_due"], {})


async def count_pending(scoped: ScopedTransaction) -> int:
    """Return the number of entries of the visible scope keys that wait for a vector."""
    ((pending,),) = await scoped.tuples(_SQL["count_pending"], {})
    return int(pending)
