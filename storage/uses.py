"""How often and when memories were last recalled. The caller owns the transaction, which is not the recall's."""

from collections.abc import Collection
from uuid import UUID

from mnemic.storage.statements import load_statements
from mnemic.storage.transaction import ScopedTransaction

_SQL = load_statements("uses")


async def count(scoped: ScopedTransaction, memory_ids: Collection[UUID]) -> None:
    """Counts one more use of each; ids that are no memories, or may not be seen, count for nothing."""
    await scoped.execute(_SQL["count"], {"ids": list(memory_ids)})
