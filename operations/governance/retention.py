"""How long memories stay: erased for the person concerned, purged by their age, protected by an administrator."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from mnemic.operations.governance.actor import Actor
from mnemic.state.errors import ConfigurationError, InvalidInputError, UnknownMemoryError
from mnemic.state.governance import Erasure
from mnemic.state.identity import scope_key
from mnemic.storage import erasure, memories
from mnemic.storage.erasure import Progress
from mnemic.storage.transaction import ScopedTransaction

#: Messages of one transaction, so that none holds the agent's head for long.
FORGOTTEN_AT_ONCE: Final = 1000


async def erase(
    actor: Actor, memory_ids: Sequence[UUID] | None, *, dry_run: bool, progress: Progress | None
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
        return await erasure.foretell(actor.database, actor.identity, keys, memory_ids)
    return await erasure.erase(actor.database, actor.identity, keys, memory_ids, progress)


async def forget_messages(actor: Actor) -> int:
    """Takes the words of the agent's messages whose days after formation are over; of how many."""
    total = 0
    while taken := await actor.write(lambda scoped: erasure.forget_messages(scoped, FORGOTTEN_AT_ONCE)):
        total += taken
    return total


async def purge(actor: Actor, days: int | None) -> list[UUID]:
    """Erases the agent's memories that expired so many days ago; their ids.

    Raises:
        ConfigurationError: None, as the setting is by default.
    """
    if days is None:
        raise ConfigurationError("nothing is purged: set MNEMIC_RETENTION_PURGE_AFTER_DAYS to say after how long")
    who = actor.identity
    return await erasure.purge_expired(actor.database, who.agent_id, who.actor, timedelta(days=days))


async def set_protection(actor: Actor, memory_id: UUID, *, protected: bool) -> bool:
    """Protects a living memory of the agent, or lifts that; whether it changed.

    Raises:
        UnknownMemoryError: the agent has no living memory of this id.
    """

    async def act(scoped: ScopedTransaction) -> bool:
        changed = await memories.set_protection(scoped, memory_id, protected=protected)
        if changed is None:
            raise UnknownMemoryError
        return changed

    return await actor.write(act)
