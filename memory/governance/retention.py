"""How long memories stay: erased for the person concerned, purged by their age, or protected."""

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
    actor: Principal, memory_ids: Sequence[UUID] | None, *, dry_run: bool, progress: Progress | None
) -> Erasure:
    """Erases memories and messages of the person for good, with what says the same (docs/erasure.md).

    Args:
        actor: the person concerned.
        memory_ids: which; None: all that the agent has of the person.
        dry_run: only tells what would be erased.
        progress: hears how far it has come.

    Raises:
        InvalidInputError: no user in the identity, where all is to be erased.
    """
    keys: Sequence[str] = actor.keys or ()
    if memory_ids is None:
        if actor.identity.user_id is None:
            raise InvalidInputError("user_id: erasing a person needs the person's id")
        keys = [scope_key("user", actor.identity.user_id)]
    if dry_run:
        return await erasure.preview(actor.database, actor.identity, keys, memory_ids)
    return await erasure.erase(actor.database, actor.identity, keys, memory_ids, progress)


async def forget_messages(actor: Principal) -> int:
    """Takes the words of the agent's messages whose days after formation are over; of how many."""
    total = 0
    while taken := await actor.write(inbox.forget_due):
        total += taken
    return total


async def purge(actor: Principal, days: int | None) -> list[UUID]:
    """Erases the agent's memories that expired so many days ago; their ids.

    Raises:
        ConfigurationError: None, as the setting is by default.
    """
    if days is None:
        raise ConfigurationError("nothing is purged: set MNEMIC_RETENTION_PURGE_AFTER_DAYS to say after how long")
    return await erasure.purge_expired(actor.database, actor.identity, timedelta(days=days))


async def set_protection(actor: Principal, memory_id: UUID, *, protected: bool) -> bool:
    """Protects a living memory of the agent, or lifts that; whether it changed.

    Raises:
        UnknownMemoryError: the agent has no living memory of this id.
    """

    async def act(scoped: ScopedTransaction) -> bool:
        changed = await memories.set_protection(scoped, memory_id, protected=protected)
        if changed is None:
            raise UnknownMemoryError  # within the transaction, so that nothing is written
        return changed

    return await actor.write(act)
