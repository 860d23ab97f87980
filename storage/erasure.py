"""Erasure for the person concerned, and the purge of expired memories. Neither can be undone.

An erasure is planned first, without the agent's head. Then it is done in steps; each is an operation that locks the
head briefly. The plan is stored, so that a later call continues the plan of a killed process.
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
from mnemic.storage.transaction import ScopedTransaction, first_column

#: Memories and messages of one step: some 100 milliseconds.
_STEP: Final = 250
#: Requested ids, and planned memories, of one statement, which delays no other transaction.
_PLANNED: Final = 200
_FOLLOWED: Final = 1000
#: Threads that one transaction deletes.
_THREADS: Final = 50
#: Maximum number of further searches for memories that were written meanwhile.
_ROUNDS: Final = 20

_PREVIEW: LiteralString = "select * from preview_erasure(%(id)s, %(keys)s)"

#: Callback after each step, with the numbers of erased and of remaining items.
Progress = Callable[[int, int], None]


class _Begun(NamedTuple):
    id: UUID
    is_whole: bool
    goes_on_from: datetime | None


async def erase(
    database: Database,
    identity: Identity,
    keys: Sequence[str],
    ids: Sequence[UUID] | None,
    progress: Progress | None = None,
) -> Erasure:
    """Erase memories of the identity's own scope keys, and repetitions of their content.

    An interrupted erasure continues with it.

    Args:
        database: the service's database.
        identity: the person concerned.
        keys: the identity's own scope keys.
        ids: of memories, or of the person's messages; None: everything that the agent has of the person.
        progress: called after each step.
    """
    begun = await database.write(identity, partial(_begin, keys=keys))
    if begun is None:
        return Erasure()
    work = _Work(database, identity, begun.id, progress)
    for part in _parts(ids or ()):
        await database.write(identity, partial(_plan_part, erasure_id=begun.id, keys=keys, part=part))
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
    requested = {*(ids or ())}
    erased: list[UUID] = []
    messages = 0
    for item_id, is_message in work.gone:
        messages += is_message
        if not is_message or item_id in requested:
            erased.append(item_id)
    return Erasure(
        erased=tuple(sorted(erased)),
        messages=messages,
        left=left,
        goes_on_from=begun.goes_on_from,
    )


async def preview(database: Database, identity: Identity, keys: Sequence[str], ids: Sequence[UUID] | None) -> Erasure:
    """Return the plan of `erase`, which is not stored: the rows to erase and those that stay."""
    async with database.transaction(identity) as tx:
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
        rows = await tx.rows(Concerned, _PREVIEW, values, for_host=True)
        await tx.connection.rollback()
    going: list[Concerned] = []
    staying: list[Concerned] = []
    for row in rows:
        if row.stays:
            staying.append(row)
        elif row.stays is None:
            going.append(row)
    messages = sum(row.kind == "message" for row in going)
    return Erasure(messages=messages, goes_on_from=begun.goes_on_from, going=tuple(going), staying=tuple(staying))


def _parts(ids: Sequence[UUID]) -> Iterator[list[UUID]]:
    """Yield the ids in parts, each with the ids under which attachments of such messages are stored."""
    for start in range(0, len(ids), _PLANNED):
        part = ids[start : start + _PLANNED]
        yield [*part, *map(attachment_id, part)]


@dataclass
class _Work:
    """An erasure in progress."""

    database: Database
    identity: Identity
    id: UUID
    progress: Progress | None
    #: Id of each erased item, and whether it was a message.
    gone: list[tuple[Any, ...]] = field(default_factory=list)

    async def call(self, function: LiteralString, *values: object) -> int:
        """Return the result of a function on the erasure, in a transaction of its own."""
        return await self.database.write(self.identity, lambda tx: _number(tx, function, self.id, *values))

    async def carry_out(self) -> None:
        """Erase all planned items, after all memories that are derived from them are found."""
        while await self.call("follow_erasure", _FOLLOWED):
            pass
        while left := await self.call("count_left_to_erase"):
            gone = await self.database.write(self.identity, self._step)
            self.gone += gone
            if self.progress:
                self.progress(len(self.gone), max(0, left - len(gone)))

    async def _step(self, tx: ScopedTransaction) -> list[tuple[Any, ...]]:
        return await tx.call_with_head("erase_step", self.id, uuid4(), self.identity.actor, _STEP)


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
    """Return the numbers of the agent's messages that a purge empties, and of the memories that it erases.

    Args:
        tx: of the agent.
        after: time since a memory's expiry; None if no memory is purged.
    """
    (row,) = await tx.call("due_purges", after)
    return DuePurges(*row)


async def purge_expired(
    database: Database, identity: Identity, after: timedelta, *, run_id: UUID | None = None
) -> list[UUID]:
    """Erase facts, episodes and insights after a time since their expiry; return their ids.

    Args:
        database: of the service, or of an administrator.
        identity: agent and actor.
        after: time since the expiry.
        run_id: maintenance run that purges as the service; None if an administrator purges.
    """
    purged = [UUID(int=0)]

    async def purge_step(tx: ScopedTransaction) -> list[UUID]:
        rows = await tx.call_with_head("purge_expired", after, run_id, uuid4(), identity.actor, purged[-1], _STEP)
        return first_column(rows)

    while more := await database.write(identity, purge_step, administers=run_id is None):
        purged += more
    return purged[1:]
