"""Rules of a rollback: its plan, its obstacles, and its steps."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from mnemic.state.errors import ContentErasedError, RollbackConflictError
from mnemic.state.governance import LaterOperation, Plan, PlanRow, Rollback, RollbackOptions, StateChange

_CONFLICTS: Final = {
    "protected": "protected memories are rolled back by an administrator only",
    "later": "later operations ({}) changed the same memories: look at the dry run, and undo them too with cascade",
    "twins": "active memories have the same text or take the same place: forget them first, or undo their operations",
}


def described(plan: Plan) -> Rollback:
    """Return the plan for callers, which takes a while for very many memories."""
    later: list[LaterOperation] = []
    relations = 0
    for row in plan.rows:
        if row.part == "conflict":
            later.append(LaterOperation(id=row.op_id, reason=row.reason))
        if row.part == "relation":
            relations += 1
    return Rollback(
        op_id=None,
        changes=_state_changes(plan, "change"),
        later=tuple(later),
        erased=_state_changes(plan, "erased"),
        twins=_state_changes(plan, "twin"),
        protected=_state_changes(plan, "protected"),
        relations=relations,
    )


def _state_changes(plan: Plan, part: str) -> tuple[StateChange, ...]:
    changes: list[StateChange] = []
    for row in plan.rows:
        if row.part == part:
            changes.append(
                StateChange(
                    id=row.memory_id, kind=row.kind, scope_key=row.scope_key, before=row.before, after=row.after
                )
            )
    changes.sort(key=attrgetter("id"))
    return tuple(changes)


def require_allowed(rollback: Rollback, options: RollbackOptions) -> None:
    """Raise if an obstacle forbids a rollback.

    Raises:
        RollbackConflictError, ContentErasedError: names the obstacle.
    """
    obstacle = rollback.refused_by(options)
    if obstacle is None:
        return
    if obstacle == "erased":
        message = (
            f"the contents of {len(rollback.erased)} of these memories were erased: skip_erased rolls back the others"
        )
        raise ContentErasedError(message, rollback)
    raise RollbackConflictError(_CONFLICTS[obstacle].format(len(rollback.later)), rollback)


def steps_of(plan: Plan, max_changes: int) -> list[Sequence[PlanRow]]:
    """Return steps of about so many changes: relations (messages follow them), then closures, then returns."""
    if len(plan.todo) <= max_changes:
        return [plan.todo]
    steps: list[Sequence[PlanRow]] = []
    # a memory and the memory that it replaces belong to the same step
    sizes = {(None,): max_changes, (0, 1): max_changes, (2,): len(plan.todo), (3,): max_changes}
    for turns, size in sizes.items():
        rows = [row for row in plan.todo if row.turn in turns]
        for start in range(0, len(rows), size):
            steps.append(rows[start : start + size])
    return steps
