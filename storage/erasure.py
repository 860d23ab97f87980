"""Erasure for a user, and the purge of expired memories. Both are final.

An erasure is planned first, without a lock on the agent's head, and then carried out in steps. Each step is an
operation that holds the head briefly. The plan is stored, so that another process continues it after a crash.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID, uuid4

from mnemic.state.governance import Concerned, Erasure
from mnemic.state.identity import Identity
from mnemic.state.records import attachment_id
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction

#: Maximum number of memories and messages of one step, which takes about 100 ms.
_STEP: Final = 250
#: Maximum numbers of ids and of planned memories of one statement, so that it blocks no other transaction.
_PLANNED: Final = 200
_FOLLOWED: Final = 1000
#: Maximum number of threads that one statement deletes.
_THREADS: Final = 50
#: Maximum number of searches for data of the user that was written meanwhile.
_ROUNDS: Final = 20

#: Called after each step with the numbers of erased and of remaining memories and messages.
Progress = Callable[[int, int], None]


class _Begun(NamedTuple):
    id: UUID
    is_whole: bool
    goes_on_from: datetime | None


async def erase(
    database: Database, who: Identity, keys: Sequence[str], ids: Sequence[UUID] | None, progress: Progress | None = None
) -> Erasure:
    """Erase memories of the identity's own scope keys and everything derived from them.

    An interrupted erasure is continued.

    Args:
        database: of the service.
        who: the user.
        keys: the identity's own scope keys.
        ids: of memories, or of messages of the user; None: all data that the agent has of the user.
        progress: called after each step.
    """
    begun = await database.write(who, partial(_begin, keys=keys))
    if begun is None:
        return Erasure()
    work = _Work(database, who, begun.id, progress)
    for part in _parts(ids or ()):
        await database.write(who, partial(_plan_part, erasure_id=begun.id, keys=keys, part=part))
    await work.carry_out()
    if ids is None or begun.is_whole:
        # until a search finds no memory that was formed meanwhile
        for _ in range(_ROUNDS):
            if not await work.call("plan_person"):
                break
            await work.carry_out()
    left = await work.call("count_left_to_erase")
    while not left and not await work.call("end_erasure", _THREADS):
        left = await work.call("count_left_to_erase")
    named = {*(ids or ())}
    erased: list[UUID] = []
    messages = 0
    for item_id, is_message in work.gone:
        messages += is_message
        if not is_message or item_id in named:
            erased.append(item_id)
    return Erasure(erased=tuple(sorted(erased)), messages=messages, left=left, goes_on_from=begun.goes_on_from)


async def preview(database: Database, who: Identity, keys: Sequence[str], ids: Sequence[UUID] | None) -> Erasure:
    """Return the plan of `erase` without storing it: the memories and messages that go, and those that stay."""
    async with database.transaction(who) as tx:
        begun = await _begin(tx, keys)
        if begun is None:
            return Erasure()
        for part in _parts(ids or ()):
            await _plan_part(tx, begun.id, keys, part)
        if ids is None or begun.is_whole:
            await tx.call("plan_person", begun.id)
        while await _number(tx, "follow_erasure", begun.id, _FOLLOWED):
            pass
        values = {"id": begun.id, "keys": keys}
        concerned = await tx.rows(Concerned, "select * from preview_erasure(%(id)s, %(keys)s)", values)
        await tx.connection.rollback()
    return Erasure(
        goes_on_from=begun.goes_on_from,
        going=tuple(item for item in concerned if item.stays is None),
        staying=tuple(item for item in concerned if item.stays),
    )


def _parts(ids: Sequence[UUID]) -> Iterator[list[UUID]]:
    """Yield the ids in parts, each with the ids under which attachments of such messages are stored."""
    for start in range(0, len(ids), _PLANNED):
        part = ids[start : start + _PLANNED]
        yield [*part, *map(attachment_id, part)]


@dataclass
class _Work:
    """An erasure in progress."""

    database: Database
    who: Identity
    id: UUID
    progress: Progress | None
    #: Ids of the erased memories and messages, each with whether it is a message.
    gone: list[tuple[Any, ...]] = field(default_factory=list)

    async def call(self, function: LiteralString, *values: object) -> int:
        """Return the number that a function returns for the erasure, in a transaction of its own."""
        return await self.database.write(self.who, lambda tx: _number(tx, function, self.id, *values))

    async def carry_out(self) -> None:
        """Carry out the whole plan; find all derived memories before the first step erases one."""
        while await self.call("follow_erasure", _FOLLOWED):
            pass
        while left := await self.call("count_left_to_erase"):
            gone = await self.database.write(self.who, self._step)
            self.gone += gone
            if self.progress:
                self.progress(len(self.gone), max(0, left - len(gone)))

    async def _step(self, tx: ScopedTransaction) -> list[tuple[Any, ...]]:
        return await tx.call_with_head("erase_step", self.id, uuid4(), self.who.actor, _STEP)


async def _plan_part(tx: ScopedTransaction, erasure_id: UUID, keys: Sequence[str], part: Sequence[UUID]) -> None:
    """Plan some of the ids of an erasure."""
    await tx.call("plan_erasure", erasure_id, tx.stored_keys(keys), part)


async def _begin(tx: ScopedTransaction, keys: Sequence[str]) -> _Begun | None:
    found = await tx.call("begin_erasure", tx.stored_keys(keys))
    return _Begun(*found[0]) if found else None


async def _number(tx: ScopedTransaction, function: LiteralString, *values: object) -> int:
    ((number,),) = await tx.call(function, *values)
    return int(number or 0)


class DuePurges(NamedTuple):
    """Numbers of expired messages and memories."""

    messages: int
    memories: int


async def due_purges(tx: ScopedTransaction, after: timedelta | None) -> DuePurges:
    """Return how many of the agent's messages lose their words in a purge, and how many memories are erased.

    Args:
        tx: of the agent.
        after: time since a memory's expiry; None if no memory is purged.
    """
    (row,) = await tx.call("due_purges", after)
    return DuePurges(*row)


async def purge_expired(
    database: Database, who: Identity, after: timedelta, *, run_id: UUID | None = None
) -> list[UUID]:
    """Erase facts, episodes and insights that expired so long ago; return their ids.

    Args:
        database: of the service, or of an administrator.
        who: identity of the agent and the actor.
        after: time since the expiry.
        run_id: run of maintenance that purges as the service; None if an administrator does.
    """
    purged = [UUID(int=0)]

    async def purge(tx: ScopedTransaction) -> list[UUID]:
        rows = await tx.call_with_head("purge_expired", after, run_id, uuid4(), who.actor, purged[-1], _STEP)
        return [item for (item,) in rows]

    while more := await database.write(who, purge, administers=run_id is None):
        purged += more
    return purged[1:]
