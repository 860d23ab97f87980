"""Rollbacks within a transaction that a test has open, in one operation however many memories they change."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from mnemic.state.rollback import Rollback
from mnemic.storage import time_machine
from mnemic.storage.database import Scoped
from mnemic.storage.time_machine import Plan


async def undo(
    scoped: Scoped, keys: Sequence[str] | None, ops: Sequence[UUID], *, cascade: bool, skip_erased: bool, apply: bool
) -> Rollback:
    """Undoes operations as one, or tells what that would do; None: as an administrator."""
    plan = await time_machine.plan_undo(scoped, keys, ops, cascade=cascade)
    return await _done(scoped, plan, cascade=cascade, skip_erased=skip_erased, apply=apply)


async def restore(scoped: Scoped, key: str, seq: int, *, administers: bool, skip_erased: bool, apply: bool) -> Rollback:
    """Gives a scope key back what it had after a seq, or tells what that would do."""
    plan = await time_machine.plan_restore(scoped, key, seq, administers=administers)
    return await _done(scoped, plan, cascade=False, skip_erased=skip_erased, apply=apply)


async def _done(scoped: Scoped, plan: Plan, *, cascade: bool, skip_erased: bool, apply: bool) -> Rollback:
    if not apply:
        return plan.rollback
    time_machine.check(plan.rollback, cascade=cascade, skip_erased=skip_erased)
    if plan.rollback.changes_nothing:
        return plan.rollback
    op_id = uuid4()
    assert await time_machine.take(scoped, plan, plan.all_of_it, op_id=op_id, whole=None, left=0)
    return replace(plan.rollback, op_id=op_id)
