"""The Time Machine: operations looked up and undone, scope keys restored, past states read.

A rollback is planned by reading, which keeps nobody waiting, and then done in bounded steps. It is an operation of its
own: audited, announced, and undone like any other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from mnemic.memory.governance.rollback_rules import described, require_allowed, steps_of
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Resources
from mnemic.state.errors import (
    ConcurrentChangeError,
    InvalidInputError,
    MnemicError,
    RollbackStoppedError,
    UnknownOperationError,
)
from mnemic.state.governance import Operation, PastMemory, Plan, Rollback, RollbackOptions
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.kinds import CONTEXT_KINDS
from mnemic.state.records import Memory
from mnemic.state.refinement import Refinement
from mnemic.storage import history, refinements
from mnemic.storage.transaction import ScopedTransaction

#: Memories and relations that one transaction changes; it holds the agent's head for a fraction of a second.
STEP: Final = 250
_NO_REFINEMENT: Final = (
    "no such refinement of these memories, or one that changed none: `refinements` (`mnemic refinements`) lists them; "
    "nothing was written"
)
_NO_RUN: Final = (
    "no such maintenance run of these memories, or one that changed none: `maintenance_runs` (`mnemic maintenance`) "
    "lists them; nothing was written"
)
#: How often it is planned, where others change the same memories before the first step.
PLANS: Final = 3

Planner = Callable[[ScopedTransaction], Awaitable[Plan]]


async def operations(
    actor: Principal, *, session_id: str | None = None, since: datetime | None = None, limit: int
) -> list[Operation]:
    """What was done to the actor's memories, newest first."""
    async with actor.transaction() as scoped:
        return await history.list_operations(scoped, actor.keys, session_id=session_id, since=since, limit=limit)


async def list_refinements(actor: Principal, *, limit: int) -> list[Refinement]:
    """Refinements of the actor's memories, newest first: figures only."""
    async with actor.transaction() as scoped:
        return await refinements.list_refinements(scoped, actor.keys, limit=limit)


async def undo(
    actor: Principal,
    op_ids: Sequence[UUID] | None,
    options: RollbackOptions,
    *,
    session_id: str | None = None,
    since: datetime | None = None,
    refinement_id: UUID | None = None,
    run_id: UUID | None = None,
) -> Rollback:
    """Undo as one these operations, those of a session since a moment, or those of a refinement or maintenance run.

    Of a person only their own part.

    Raises:
        UnknownOperationError, RollbackConflictError, ContentErasedError, ConcurrentChangeError: nothing was written.
        RollbackStoppedError: a part was done.
    """

    async def plan(scoped: ScopedTransaction) -> Plan:
        named = op_ids or await history.find_operation_ids(
            scoped, actor.keys, session_id=session_id, since=since, refinement_id=refinement_id, run_id=run_id
        )
        if refinement_id and not named:
            raise UnknownOperationError(_NO_REFINEMENT)
        if run_id and not named:
            raise UnknownOperationError(_NO_RUN)
        return await history.plan_undo(scoped, actor.keys, named, cascade=options.cascade)

    return await _carry_out(actor, plan, options)


async def unshare(actor: Principal, by: str, options: RollbackOptions) -> Rollback:
    """Take back as one operation what an actor brought into groups or the whole agent; what is their own stays.

    Its words leave the past states that others read, too; the actor still reads them, and can erase them by id.

    Raises:
        MnemicError: as `undo`.
    """
    async with actor.transaction() as scoped:
        shared = await history.find_shared(scoped, by)
    if not shared.scope_keys:
        return Rollback(op_id=None)
    return await _carry_out(
        replace(actor, keys=shared.scope_keys),
        lambda scoped: history.plan_unshare(scoped, shared, cascade=options.cascade),
        options,
    )


async def restore(actor: Principal, key: str, moment: int | datetime, options: RollbackOptions) -> Rollback:
    """Gives a scope key back the memories that it had at a moment.

    Raises:
        InvalidInputError: no scope key, not the person's own, or no moment of its history; nothing was written.
        MnemicError: as `undo`.
    """
    split_scope_key(key)
    if actor.keys is not None and key not in actor.keys:
        raise InvalidInputError(
            "scope_key: a person restores their own user's and session's key; an administrator restores what is "
            "shared (`Administration.restore`, or `mnemic restore` without --user)"
        )
    return await _carry_out(
        actor, lambda scoped: history.plan_restore(scoped, key, moment, administers=actor.keys is None), options
    )


async def as_of(
    resources: Resources, identity: Identity, key: str, moment: int | datetime, *, with_closed: bool
) -> list[Memory]:
    """The memories that a scope key of the identity had at a moment, as far as the role may read them.

    Raises:
        CategoryRefusedError: the role has no allowlist.
        InvalidInputError: none of the identity's scope keys, or no moment of the history.
    """
    if key not in identity.scope_keys:
        raise InvalidInputError("scope_key: none of this identity's")
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.transaction(identity, categories=allowlist.categories) as scoped:
        found = await history.as_of(scoped, key, moment, with_closed=with_closed)
    return [memory for memory in found if allowlist.standing or memory.kind not in CONTEXT_KINDS]


async def as_of_blind(actor: Principal, key: str, moment: int | datetime, *, with_closed: bool) -> list[PastMemory]:
    """As `as_of`, for an administrator: without what the memories say.

    Raises:
        InvalidInputError: no scope key, or no moment of the history.
    """
    split_scope_key(key)
    async with actor.transaction() as scoped:
        found = await history.as_of_without_contents(scoped, key, moment)
    return [memory for memory in found if with_closed or memory.state in ("active", "purged")]


async def _carry_out(actor: Principal, planner: Planner, options: RollbackOptions) -> Rollback:
    """All that stands against it is found before the first step is written."""
    for _ in range(PLANS):
        plan = await actor.write(planner)
        rollback = await asyncio.to_thread(described, plan)
        if options.dry_run:
            return rollback
        require_allowed(rollback, options)
        if rollback.changes_nothing:
            return rollback
        op_id = await _take_steps(actor, plan)
        if op_id is not None:
            return replace(rollback, op_id=op_id)
    raise ConcurrentChangeError("these memories are being changed by others; nothing was written: try again")


async def _take_steps(actor: Principal, plan: Plan) -> UUID | None:
    """The operation, or the rollback of these steps; None: something is not as planned, and nothing was written."""
    steps = steps_of(plan, STEP)
    rollback_id = plan.resumed or uuid4()
    whole = rollback_id if plan.resumed or len(steps) > 1 else None
    left, done = len(plan.todo), 0
    for step in steps:
        # the first step of a new rollback has the id of the whole
        op_id = rollback_id if not plan.resumed and not done else uuid4()
        act = partial(history.take_step, plan=plan, step=step, op_id=op_id, whole=whole, left=left - len(step))
        try:
            is_done = await actor.write(act)
        except MnemicError as error:
            if done:
                raise RollbackStoppedError(rollback_id, done=done, left=left) from error
            raise
        if not is_done and done:
            raise RollbackStoppedError(rollback_id, done=done, left=left)
        if not is_done:
            return None
        left, done = left - len(step), done + len(step)
    return rollback_id
