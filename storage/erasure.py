"""Erasure for the person concerned, and the purge of what time has closed. What is gone stays gone.

It is planned first, without the agent's head, and then done in steps, each an operation that holds the head briefly.
The plan is stored: whoever comes after a process that was killed goes on with it.
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

#: Memories and messages of one step: some 100 milliseconds.
_STEP: Final = 250
#: Of ids given, and of planned memories, so many are looked into at once, which holds nobody up.
_PLANNED: Final = 200
_FOLLOWED: Final = 1000
#: Threads deleted at once.
_THREADS: Final = 50
#: How often a person is looked through again for what was written meanwhile.
_ROUNDS: Final = 20

#: Told after each step: how much is erased, and how much is left.
Progress = Callable[[int, int], None]


class _Begun(NamedTuple):
    id: UUID
    is_whole: bool
    goes_on_from: datetime | None


async def erase(
    database: Database, who: Identity, keys: Sequence[str], ids: Sequence[UUID] | None, progress: Progress | None = None
) -> Erasure:
    """Erase memories of the identity's own scope keys, and repetitions of their content.

    An erasure that was broken off goes on with it.

    Args:
        database: the service's database.
        who: the person concerned.
        keys: the identity's own scope keys.
        ids: of memories, or of messages of the person's; None: all that the agent has of the person.
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
        # until nothing is found that was formed meanwhile
        for _ in range(_ROUNDS):
            if not await work.call("plan_person"):
                break
            await work.carry_out()
    left = await work.call("count_left_to_erase")
    while not left and not await work.call("end_erasure", _THREADS):
        left = await work.call("count_left_to_erase")
    named = {*(ids or ())}
    return Erasure(
        erased=tuple(sorted(item for item, is_message in work.gone if not is_message or item in named)),
        messages=sum(is_message for _, is_message in work.gone),
        left=left,
        goes_on_from=begun.goes_on_from,
    )


async def preview(database: Database, who: Identity, keys: Sequence[str], ids: Sequence[UUID] | None) -> Erasure:
    """Return the plan of `erase`, which is not stored: the rows to erase and those that stay."""
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
        found = await tx.rows(Concerned, "select * from preview_erasure(%(id)s, %(keys)s)", values)
        await tx.connection.rollback()
    return Erasure(
        goes_on_from=begun.goes_on_from,
        going=tuple(item for item in found if item.stays is None),
        staying=tuple(item for item in found if item.stays),
    )


def _parts(ids: Sequence[UUID]) -> Iterator[list[UUID]]:
    """Yield the ids in parts, each with the ids under which attachments of such messages are stored."""
    for start in range(0, len(ids), _PLANNED):
        part = ids[start : start + _PLANNED]
        yield [*part, *map(attachment_id, part)]


@dataclass
class _Work:
    """An erasure on its way."""

    database: Database
    who: Identity
    id: UUID
    progress: Progress | None
    #: What it has taken, and whether it was a message.
    gone: list[tuple[Any, ...]] = field(default_factory=list)

    async def call(self, function: LiteralString, *values: object) -> int:
        """Return the result of a function on the erasure, in a transaction of its own."""
        return await self.database.write(self.who, lambda tx: _number(tx, function, self.id, *values))

    async def carry_out(self) -> None:
        """All that is planned: nothing goes before it is known what it went into."""
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
    """Numbers of messages and memories whose days are over."""

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
        who: agent and actor.
        after: time since the expiry.
        run_id: run of maintenance that purges as the service; None if an administrator does.
    """
    purged = [UUID(int=0)]

    async def act(tx: ScopedTransaction) -> list[UUID]:
        rows = await tx.call_with_head("purge_expired", after, run_id, uuid4(), who.actor, purged[-1], _STEP)
        return [item for (item,) in rows]

    while more := await database.write(who, act, administers=run_id is None):
        purged += more
    return purged[1:]
