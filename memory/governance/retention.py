"""Retention of memories: erasure for the person concerned, purge by age, and protection."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from mnemic.memory.runtime.principal import Principal
from mnemic.state.errors import ConfigurationError, InvalidInputError, UnknownMemoryError
from mnemic.state.governance import Erasure
from mnemic.state.identity import scope_key
from mnemic.storage import erasure, inbox, memories
from mnemic.storage.erasure import Progress
from mnemic.storage.transaction import ScopedTransaction


async def erase(
    principal: Principal, ids: Sequence[UUID] | None, *, dry_run: bool, progress: Progress | None
) -> Erasure:
    """Erase memories and messages of a person for good, with all items of the same contents (docs/erasure.md).

    Args:
        principal: the person concerned.
        ids: memories and messages; None for all data that the agent has of the person.
        dry_run: erase nothing, and return the items to erase.
        progress: called after each step with the numbers of erased and remaining items.

    Raises:
        InvalidInputError: if all data is to be erased, and the identity has no user.
    """
    identity = principal.identity
    keys: Sequence[str] = principal.keys or ()
    if ids is None:
        if identity.user_id is None:
            raise InvalidInputError("user_id: it is missing; set it to the person whose data to erase")
        keys = [scope_key("user", identity.user_id)]
    if dry_run:
        return await erasure.preview(principal.database, identity, keys, ids)
    return await erasure.erase(principal.database, identity, keys, ids, progress)


async def forget_messages(principal: Principal) -> int:
    """Remove the texts of the agent's messages whose days after formation are over; return their number."""
    total = 0
    while removed := await principal.write(inbox.forget_due):
        total += removed
    return total


async def purge(principal: Principal, days: int | None) -> list[UUID]:
    """Erase the agent's memories that expired so many days ago; return their ids.

    Raises:
        ConfigurationError: if the number of days is None, the default of the setting.
    """
    if days is None:
        raise ConfigurationError("nothing is purged: set MNEMIC_RETENTION_PURGE_AFTER_DAYS to a number of days")
    return await erasure.purge_expired(principal.database, principal.identity, timedelta(days=days))


async def set_protection(principal: Principal, memory_id: UUID, *, protected: bool) -> bool:
    """Protect or unprotect an active memory of the agent; return whether that changed it.

    Raises:
        UnknownMemoryError: if the agent has no active memory of this id.
    """

    async def change_protection(tx: ScopedTransaction) -> bool:
        is_changed = await memories.set_protection(tx, memory_id, protected=protected)
        if is_changed is None:
            raise UnknownMemoryError  # within the transaction, so that nothing is written
        return is_changed

    return await principal.write(change_protection)
