"""Protection, by administrators. The caller owns the transaction."""

from uuid import UUID

from mnemic.storage.statements import load_statements
from mnemic.storage.transaction import Scoped

_SQL = load_statements("protection")


async def set_protection(scoped: Scoped, memory_id: UUID, *, protected: bool) -> bool | None:
    """As administrator: protects a memory, or lifts that; whether it changed, None where no such memory lives."""
    values = {"memory_id": memory_id, "protected": protected, "actor": scoped.identity.actor}
    await scoped.wait_for_head()
    ((changed,),) = await scoped.tuples(_SQL["set_protection"], values)
    return None if changed is None else bool(changed)
