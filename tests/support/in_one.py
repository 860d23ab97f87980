"""Rollbacks within a transaction that a test has open, in one operation however many memories they change."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from mnemic.policy.governance.rollback import described, require_allowed
from mnemic.state.governance import Plan, Rollback, RollbackOptions
from mnemic.storage import time_machine
from mnemic.storage.transaction import ScopedTransaction


async def undo(
    scoped: ScopedTransaction,
    keys: Sequence[str] | None,
    ops: Sequence[UUID],
    *,
    cascade: bool,
    skip_erased: bool,
    apply: bool,
) -> Rollback:
    """Undoes operations as one, or tells what that would do; None: as an administrator."""
    plan = await time_machine.plan_undo(scoped, keys, ops, cascade=cascade)
    return await _done(scoped, plan, cascade=cascade, skip_erased=skip_erased, apply=apply)


async def restore(
    scoped: ScopedTransaction, key: str, seq: int, *, administers: bool, skip_erased: bool, apply: bool
) -> Rollback:
    """Gives a scope key back what it had after a seq, or tells what that would do."""
    plan = await time_machine.plan_restore(scoped, key, seq, administers=administers)
    return await _done(scoped, plan, cascade=False, skip_erased=skip_erased, apply=apply)


async def _done(scoped: ScopedTransaction, plan: Plan, *, cascade: bool, skip_erased: bool, apply: bool) -> Rollback:
    rollback = described(plan)
    if not apply:
        return rollback
    require_allowed(rollback, RollbackOptions(cascade=cascade, skip_erased=skip_erased))
    if rollback.changes_nothing:
        return rollback
    op_id = uuid4()
    assert await time_machine.take_step(scoped, plan, plan.whole, op_id=op_id, whole=None, left=0)
    return replace(rollback, op_id=op_id)
