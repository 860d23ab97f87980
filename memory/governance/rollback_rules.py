"""Rules of a rollback: its plan, its obstacles, and its steps."""

from collections.abc import Sequence
from operator import attrgetter

from mnemic.state.errors import ContentErasedError, RollbackConflictError
from mnemic.state.governance import LaterOperation, Plan, PlanRow, Rollback, RollbackOptions, StateChange

_CONFLICTS = {
    "protected": "protected memories are rolled back by an administrator only",
    "later": "later operations ({}) changed the same memories: look at the dry run, and undo them too with cascade",
    "twins": "memories that live today say the same, or hold the place: forget those first, or undo what made them",
}


def described(plan: Plan) -> Rollback:
    """Return the plan as callers see it, which takes a while for very many memories."""

    def part(name: str) -> tuple[StateChange, ...]:
        rows = sorted((row for row in plan.rows if row.part == name), key=attrgetter("memory_id"))
        return tuple(map(_state_change, rows))

    later = (LaterOperation(id=row.op_id, reason=row.reason) for row in plan.rows if row.part == "conflict")
    return Rollback(
        op_id=None,
        changes=part("change"),
        later=tuple(later),
        erased=part("erased"),
        twins=part("twin"),
        protected=part("protected"),
        relations=sum(row.part == "relation" for row in plan.todo),
    )


def _state_change(row: PlanRow) -> StateChange:
    return StateChange(id=row.memory_id, kind=row.kind, scope_key=row.scope_key, before=row.before, after=row.after)


def require_allowed(rollback: Rollback, options: RollbackOptions) -> None:
    """Raise if an obstacle forbids a rollback.

    Raises:
        RollbackConflictError, ContentErasedError: names the obstacle.
    """
    obstacle = rollback.refused_by(options)
    if obstacle == "erased":
        erased = f"what {len(rollback.erased)} of these memories said was erased: skip_erased rolls back the others"
        raise ContentErasedError(erased, rollback)
    if obstacle is not None:
        raise RollbackConflictError(_CONFLICTS[obstacle].format(len(rollback.later)), rollback)


def steps_of(plan: Plan, most: int) -> list[Sequence[PlanRow]]:
    """Return parts of about so many changes: relations (messages follow them), then closures, then returns."""
    if len(plan.todo) <= most:
        return [plan.todo]
    steps: list[Sequence[PlanRow]] = []
    # a memory and the memory that it replaces belong to the same step
    for turns, size in (((None,), most), ((0, 1), most), ((2,), len(plan.todo)), ((3,), most)):
        rows = [row for row in plan.todo if row.turn in turns]
        steps += [rows[start : start + size] for start in range(0, len(rows), size)]
    return steps
