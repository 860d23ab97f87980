"""Rollback of memories: their operations, their undo, past states, and the withdrawal of shared memories."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from mnemic.memory.governance.rollback_rules import described, require_allowed, steps_of
from mnemic.memory.runtime.identity import require_scope_key
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
from mnemic.state.worker_threads import in_thread
from mnemic.storage import history, refinements
from mnemic.storage.transaction import ScopedTransaction

#: Changes of memories and relations in one transaction, which holds the agent's head for a fraction of a second.
MAX_STEP_CHANGES: Final = 250
#: Number of plans, if others change the same memories before the first step.
MAX_PLANS: Final = 3
_NO_REFINEMENT: Final = (
    "no such refinement of these memories, or one that changed none: `refinements` (`mnemic refinements`) lists them; "
    "nothing was written"
)
_NO_RUN: Final = (
    "no such maintenance run of these memories, or one that changed none: `maintenance_runs` (`mnemic maintenance`) "
    "lists them; nothing was written"
)
_FOREIGN_SCOPE_KEY: Final = (
    "scope_key: a person restores their own user's and session's key; an administrator restores shared ones "
    "(`Administration.history.restore`, or `mnemic restore` without --user)"
)

Planner = Callable[[ScopedTransaction], Awaitable[Plan]]


async def operations(
    principal: Principal, *, session_id: str | None = None, since: datetime | None = None, limit: int
) -> list[Operation]:
    """Return the operations on the principal's memories, newest first."""
    async with principal.transaction() as tx:
        return await history.list_operations(tx, principal.keys, session_id=session_id, since=since, limit=limit)


async def list_refinements(principal: Principal, *, limit: int) -> list[Refinement]:
    """Return the refinements of the principal's memories, newest first: figures only."""
    async with principal.transaction() as tx:
        return await refinements.list_refinements(tx, principal.keys, limit=limit)


async def undo(  # noqa: PLR0913 - one of several ways to name operations
    principal: Principal,
    op_ids: Sequence[UUID] | None,
    options: RollbackOptions,
    *,
    session_id: str | None = None,
    since: datetime | None = None,
    refinement_id: UUID | None = None,
    run_id: UUID | None = None,
) -> Rollback:
    """Undo operations as one operation; for a person, only the changes of the person's own memories.

    Args:
        principal: the person or the administrator.
        op_ids: the operations; None for those of a session since a time, of a refinement, or of a maintenance run.
        options: options of the rollback.
        session_id: the session.
        since: the time of the session's first operation to undo.
        refinement_id: the refinement.
        run_id: the maintenance run.

    Raises:
        UnknownOperationError, RollbackConflictError, ContentErasedError, ConcurrentChangeError: nothing was written.
        RollbackStoppedError: if a part was rolled back.
    """

    async def plan(tx: ScopedTransaction) -> Plan:
        requested = op_ids or await history.find_operation_ids(
            tx, principal.keys, session_id=session_id, since=since, refinement_id=refinement_id, run_id=run_id
        )
        if refinement_id and not requested:
            raise UnknownOperationError(_NO_REFINEMENT)
        if run_id and not requested:
            raise UnknownOperationError(_NO_RUN)
        return await history.plan_undo(tx, principal.keys, requested, cascade=options.cascade)

    return await _carry_out(principal, plan, options)


async def unshare(principal: Principal, author: str, options: RollbackOptions) -> Rollback:
    """Withdraw the memories that an author shared with groups or the whole agent, as one operation.

    The author's own memories stay. The withdrawn texts leave the past states that others read, too. The author still
    reads them, and can erase them by id.

    Raises:
        MnemicError: as `undo`.
    """
    async with principal.transaction() as tx:
        shared = await history.find_shared(tx, author)
    if not shared.scope_keys:
        return Rollback(op_id=None)
    plan = partial(history.plan_unshare, shared=shared, cascade=options.cascade)
    return await _carry_out(replace(principal, keys=shared.scope_keys), plan, options)


async def restore(principal: Principal, key: str, at: int | datetime, options: RollbackOptions) -> Rollback:
    """Restore the memories that a scope key had at a revision or a time.

    Raises:
        InvalidInputError: if the scope key is not the principal's, or the history has no such revision; nothing was
            written.
        MnemicError: as `undo`.
    """
    split_scope_key(key)
    administers = principal.keys is None
    if principal.keys is not None and key not in principal.keys:
        raise InvalidInputError(_FOREIGN_SCOPE_KEY)

    async def plan(tx: ScopedTransaction) -> Plan:
        return await history.plan_restore(tx, key, at, administers=administers)

    return await _carry_out(principal, plan, options)


async def as_of(
    resources: Resources, identity: Identity, key: str, at: int | datetime, *, with_closed: bool
) -> list[Memory]:
    """Return the memories that a scope key had at a revision or a time, as far as the role may read them.

    Raises:
        CategoryRefusedError: if the role has no allowlist.
        InvalidInputError: if the scope key is none of the identity's, or the history has no such revision.
    """
    require_scope_key(identity, key)
    allowlist = resources.categories.of_role(identity.role)
    async with resources.database.transaction(identity, categories=allowlist.categories) as tx:
        memories = await history.as_of(tx, key, at, with_closed=with_closed)
    if allowlist.standing:
        return memories
    return [memory for memory in memories if memory.kind not in CONTEXT_KINDS]


async def metadata_as_of(principal: Principal, key: str, at: int | datetime, *, with_closed: bool) -> list[PastMemory]:
    """Return the memories that a scope key had at a revision or a time, for an administrator: without texts.

    Raises:
        InvalidInputError: if the text is no scope key, or the history has no such revision.
    """
    split_scope_key(key)
    async with principal.transaction() as tx:
        memories = await history.as_of_without_contents(tx, key, at)
    if with_closed:
        return memories
    return [memory for memory in memories if memory.state in ("active", "purged")]


async def _carry_out(principal: Principal, planner: Planner, options: RollbackOptions) -> Rollback:
    """Plan a rollback and write all its steps. Every obstacle is found before the first step."""
    for _ in range(MAX_PLANS):
        plan = await principal.write(planner)
        rollback = await in_thread(described, plan)
        if options.dry_run:
            return rollback
        require_allowed(rollback, options)
        if rollback.changes_nothing:
            return rollback
        op_id = await _take_steps(principal, plan)
        if op_id is not None:
            return replace(rollback, op_id=op_id)
    raise ConcurrentChangeError("other runs keep changing these memories; nothing was written. Try again")


async def _take_steps(principal: Principal, plan: Plan) -> UUID | None:
    """Return the operation of the rollback, or None if the memories differ from the plan; nothing was written then."""
    steps = steps_of(plan, MAX_STEP_CHANGES)
    rollback_id = plan.resumed or uuid4()
    whole = None
    if plan.resumed or len(steps) > 1:
        whole = rollback_id
    left, done = len(plan.todo), 0
    for step in steps:
        # the first step of a new rollback has the id of the whole
        op_id = uuid4() if plan.resumed or done else rollback_id
        take = partial(history.take_step, plan=plan, step=step, op_id=op_id, whole=whole, left=left - len(step))
        if not await _take_step(principal, take, rollback_id, done=done, left=left):
            return None
        left -= len(step)
        done += len(step)
    return rollback_id


async def _take_step(
    principal: Principal,
    take: Callable[[ScopedTransaction], Awaitable[bool]],
    rollback_id: UUID,
    *,
    done: int,
    left: int,
) -> bool:
    """Take one step; return False if it is the first one and the memories differ from the plan."""
    try:
        is_taken = await principal.write(take)
    except MnemicError as error:
        if done:
            raise RollbackStoppedError(rollback_id, done=done, left=left) from error
        raise
    if not is_taken and done:
        raise RollbackStoppedError(rollback_id, done=done, left=left)
    return is_taken
