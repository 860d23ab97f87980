"""Erasure for the person concerned, and the purge of what time has closed. What is gone stays gone."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

from mnemic.storage.database import Scoped
from mnemic.storage.statements import load_statements

_SQL = load_statements("erasure")


async def erase(scoped: Scoped, keys: Sequence[str], ids: Sequence[UUID]) -> list[UUID]:
    """Erases these memories of the transaction's scope keys; the ids of those it erased."""
    values = {"keys": list(keys), "ids": list(ids), "op_id": uuid4(), "actor": scoped.identity.actor}
    await scoped.wait_for_head()
    return [erased for (erased,) in await scoped.tuples(_SQL["erase"], values)]


async def erase_person(scoped: Scoped, user_id: str) -> list[UUID]:
    """Erases all that the agent has of the transaction's user; the ids of the memories it erased."""
    values = {"user_id": user_id, "op_id": uuid4(), "actor": scoped.identity.actor}
    await scoped.wait_for_head()
    return [erased for (erased,) in await scoped.tuples(_SQL["erase_person"], values)]


async def forget_messages(scoped: Scoped, most: int) -> int:
    """As administrator: takes the words of the agent's messages whose time has come; of how many."""
    await scoped.wait_for_head()
    ((gone,),) = await scoped.tuples(_SQL["forget_messages"], {"most": most})
    return int(gone)


async def purge_expired(scoped: Scoped, after: timedelta) -> list[UUID]:
    """As administrator: erases facts, episodes and insights that expired so long ago; their ids."""
    values = {"after": after, "op_id": uuid4(), "actor": scoped.identity.actor}
    await scoped.wait_for_head()
    return [purged for (purged,) in await scoped.tuples(_SQL["purge_expired"], values)]
