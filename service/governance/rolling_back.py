"""What the person concerned and an administrator roll back alike: planned by reading, then done in bounded steps."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, Protocol, TypeVar
from uuid import UUID, uuid4

from mnemic.service.asked import Rolling
from mnemic.state.errors import ConcurrentChangeError, MnemicError, RollbackStoppedError, UnknownOperationError
from mnemic.state.identity import Identity
from mnemic.state.rollback import Rollback
from mnemic.storage import refinements, time_machine
from mnemic.storage.database import Database, Scoped
from mnemic.storage.time_machine import Plan

Result = TypeVar("Result")

#: Memories and relations that one transaction changes; it holds the agent's head for a fraction of a second.
STEP: Final = 250
#: How often it is planned, where others change the same memories before the first step.
PLANS: Final = 3


class Transact(Protocol):
    """One transaction of somebody's, done again where Postgres gave it up for another's sake."""

    def __call__(self, act: Callable[[Scoped], Awaitable[Result]], /) -> Awaitable[Result]: ...


def as_person(database: Database, who: Identity) -> Transact:
    """Transactions of the person concerned."""

    async def transact(act: Callable[[Scoped], Awaitable[Result]], /) -> Result:
        return await database.write(who, act)

    return transact


def as_administrator(database: Database, agent_id: str, actor: str) -> Transact:
    """Transactions of an administrator."""

    async def transact(act: Callable[[Scoped], Awaitable[Result]], /) -> Result:
        return await database.administer(agent_id, actor, act)

    return transact


async def undo(transact: Transact, keys: Sequence[str] | None, ops: Sequence[UUID], how: Rolling) -> Rollback:
    """Undoes operations as one: a person's on these scope keys alone; None: an administrator's on all.

    Raises:
        UnknownOperationError, RollbackConflictError, ContentErasedError, ConcurrentChangeError: nothing was written.
        RollbackStoppedError: a part was done.
    """

    async def plan(scoped: Scoped) -> Plan:
        return await time_machine.plan_undo(scoped, keys, ops, cascade=how.cascade)

    return await _carry_out(transact, plan, how)


async def undo_session(
    transact: Transact, keys: Sequence[str] | None, session_id: str, since: datetime, how: Rolling
) -> Rollback:
    """Undoes what agents did in a session since a moment, as one.

    Raises:
        MnemicError: as `undo`.
    """

    async def plan(scoped: Scoped) -> Plan:
        ops = await time_machine.of_session(scoped, keys, session_id, since)
        return await time_machine.plan_undo(scoped, keys, ops, cascade=how.cascade)

    return await _carry_out(transact, plan, how)


async def undo_refinement(
    transact: Transact, keys: Sequence[str] | None, refinement_id: UUID, how: Rolling
) -> Rollback:
    """Undoes what one refinement did, as one.

    Raises:
        MnemicError: as `undo`.
    """

    async def plan(scoped: Scoped) -> Plan:
        ops = await refinements.operations(scoped, keys, refinement_id)
        if not ops:
            raise UnknownOperationError(await _why_no_operations(scoped, keys, refinement_id))
        return await time_machine.plan_undo(scoped, keys, ops, cascade=how.cascade)

    return await _carry_out(transact, plan, how)


async def _why_no_operations(scoped: Scoped, keys: Sequence[str] | None, refinement_id: UUID) -> str:
    if not await refinements.is_known(scoped, refinement_id):
        return "no such refinement: `refinements` (`mnemic refinements`) lists them; nothing was written"
    changed = "nothing" if keys is None else "none of this person's memories"
    return f"this refinement changed {changed}: there is nothing to undo"


async def restore(transact: Transact, key: str, moment: int | datetime, how: Rolling, *, administers: bool) -> Rollback:
    """Gives a scope key back what it had at a moment.

    Raises:
        InvalidInputError: nothing was written.
        MnemicError: as `undo`.
    """

    async def plan(scoped: Scoped) -> Plan:
        seq = await time_machine.seq_of(scoped, key, moment)
        return await time_machine.plan_restore(scoped, key, seq, administers=administers)

    return await _carry_out(transact, plan, how)


async def _carry_out(transact: Transact, plan: Callable[[Scoped], Awaitable[Plan]], how: Rolling) -> Rollback:
    """All of what stands against it is found before the first step is written."""
    for _ in range(PLANS):
        planned = await transact(plan)
        told: Rollback = await asyncio.to_thread(getattr, planned, "rollback")
        if how.dry_run:
            return told
        time_machine.check(told, cascade=how.cascade, skip_erased=how.skip_erased)
        if told.changes_nothing:
            return told
        done = await _take_steps(transact, planned)
        if done is not None:
            return replace(told, op_id=done)
    raise ConcurrentChangeError("these memories are being changed by others; nothing was written: try again")


async def _take_steps(transact: Transact, planned: Plan) -> UUID | None:
    """The operation, or the rollback of these steps; None: something is not as planned, and nothing was written."""
    steps = planned.steps(STEP)
    op_id = planned.resumed or uuid4()
    whole = op_id if planned.resumed or len(steps) > 1 else None
    left, done = planned.all_of_it.size, 0
    for step in steps:
        named = op_id if not planned.resumed and not done else uuid4()
        act = partial(
            time_machine.take, plan=planned, step=step, op_id=named, whole=whole, left=left - step.size
        )  # fmt: skip
        try:
            is_done = await transact(act)
        except MnemicError as error:
            if done:
                raise RollbackStoppedError(op_id, done=done, left=left) from error
            raise
        if not is_done:
            if done:
                raise RollbackStoppedError(op_id, done=done, left=left)
            return None
        left, done = left - step.size, done + step.size
    return op_id
