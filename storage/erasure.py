"""Erasure for the person concerned, and the purge of what time has closed. What is gone stays gone.

It is planned first, without the agent's head, and then done in steps, each an operation that holds the head briefly.
The plan is stored: whoever comes after a process that was killed goes on with it.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from mnemic.state.governance import Concerned, Erasure
from mnemic.state.identity import Identity
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction, load_statements

_SQL = load_statements("erasure")
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
    begun_at: datetime
    is_whole: bool
    goes_on: bool


async def erase(
    database: Database, who: Identity, keys: Sequence[str], ids: Sequence[UUID] | None, progress: Progress | None = None
) -> Erasure:
    """Erases memories of the identity's own scope keys, and what says what they say.

    An erasure that was broken off goes on with it.

    Args:
        keys: the identity's own scope keys.
        ids: of memories, or of messages of the person's; None: all that the agent has of the person.
    """
    begun = await database.write(who, lambda scoped: _begin(scoped, keys))
    if begun is None:
        return Erasure()
    work = _Work(database, who, begun, frozenset(ids or ()), progress)
    for part in _parts(ids or ()):
        await database.write(who, partial(_plan, begun=begun, keys=keys, ids=part))
    await work.carry_out()
    if ids is None or begun.is_whole:
        await work.whole()
    return await work.ended()


async def foretell(database: Database, who: Identity, keys: Sequence[str], ids: Sequence[UUID] | None) -> Erasure:
    """What `erase` would take and leave: its plan, which is not kept."""
    async with database.scoped(who) as scoped:
        begun = await _begin(scoped, keys)
        if begun is None:
            return Erasure()
        for part in _parts(ids or ()):
            await _plan(scoped, begun, keys, part)
        if ids is None or begun.is_whole:
            await _value(scoped, "plan_person", begun)
        while await _value(scoped, "follow", begun, most=_FOLLOWED):
            pass
        rows = await scoped.tuples(_SQL["tell"], {"erasure_id": begun.id, "keys": list(keys)})
        await scoped.connection.rollback()
    told = [(part, Concerned(id=i, kind=kind, scope_key=key, content=text)) for part, i, kind, key, text in rows]
    return Erasure(
        goes_on_from=begun.begun_at if begun.goes_on else None,
        going=tuple(one for part, one in told if part in ("memory", "message")),
        staying=tuple(replace(one, stays=part) for part, one in told if part not in ("memory", "message")),
    )


class _Work:
    """An erasure on its way."""

    def __init__(
        self, database: Database, who: Identity, begun: _Begun, named: Set[UUID], progress: Progress | None
    ) -> None:
        self._database, self._who, self._begun, self._progress = database, who, begun, progress
        self._named = named
        self._erased: list[UUID] = []
        self._items = self._messages = 0

    async def whole(self) -> None:
        """All of a person, until nothing is found that was formed meanwhile."""
        for _ in range(_ROUNDS):
            if not await self._write("plan_person"):
                break
            await self.carry_out()

    async def carry_out(self) -> None:
        """All that is planned: nothing goes before it is known what it went into."""
        while await self._write("follow", most=_FOLLOWED):
            pass
        left = await self._write("left") if self._progress else 0
        while gone := await self._database.write(self._who, self._step):
            self._erased += [one for one, is_message in gone if not is_message or one in self._named]
            self._messages += sum(is_message for _, is_message in gone)
            self._items += len(gone)
            if self._progress:
                left = max(0, left - len(gone))
                self._progress(self._items, left)

    async def ended(self) -> Erasure:
        """What is done, and how much is left; with nothing, the erasure ends."""
        left = await self._write("left")
        while not left and not await self._write("end", most=_THREADS):
            left = await self._write("left")
        return Erasure(
            erased=tuple(sorted(self._erased)),
            messages=self._messages,
            left=left,
            goes_on_from=self._begun.begun_at if self._begun.goes_on else None,
        )

    async def _step(self, scoped: ScopedTransaction) -> list[tuple[UUID, bool]]:
        await scoped.wait_for_head()
        values = {"erasure_id": self._begun.id, "op_id": uuid4(), "actor": self._who.actor, "most": _STEP}
        return [(one, is_message) for one, is_message in await scoped.tuples(_SQL["step"], values)]

    async def _write(self, name: str, most: int = 0) -> int:
        return await self._database.write(self._who, lambda scoped: _value(scoped, name, self._begun, most=most))


def _parts(ids: Sequence[UUID]) -> list[Sequence[UUID]]:
    return [ids[start : start + _PLANNED] for start in range(0, len(ids), _PLANNED)]


async def _begin(scoped: ScopedTransaction, keys: Sequence[str]) -> _Begun | None:
    found = await scoped.rows(_Begun, _SQL["begin"], {"keys": list(keys), "actor": scoped.identity.actor})
    return found[0] if found else None


async def _plan(scoped: ScopedTransaction, begun: _Begun, keys: Sequence[str], ids: Sequence[UUID]) -> None:
    await scoped.execute(_SQL["plan"], {"erasure_id": begun.id, "keys": list(keys), "ids": list(ids)})


async def _value(scoped: ScopedTransaction, name: str, begun: _Begun, most: int = 0) -> int:
    ((value,),) = await scoped.tuples(_SQL[name], {"erasure_id": begun.id, "most": most})
    return int(value or 0)


async def forget_messages(scoped: ScopedTransaction, most: int) -> int:
    """As administrator: takes the words of the agent's messages whose time has come; of how many."""
    await scoped.wait_for_head()
    ((gone,),) = await scoped.tuples(_SQL["forget_messages"], {"most": most})
    return int(gone)


async def purge_expired(database: Database, agent_id: str, actor: str, after: timedelta) -> list[UUID]:
    """As administrator: erases facts, episodes and insights that expired so long ago; their ids."""
    purged: list[UUID] = []

    async def act(scoped: ScopedTransaction) -> list[UUID]:
        values = {"after": after, "op_id": uuid4(), "actor": actor, "most": _STEP,
                  "beyond": purged[-1] if purged else UUID(int=0)}  # fmt: skip
        await scoped.wait_for_head()
        return [one for (one,) in await scoped.tuples(_SQL["purge_expired"], values)]

    while more := await database.administer(agent_id, actor, act):
        purged += more
    return purged
