"""Rules of a rollback: what its plan means, what stands against it, and into which steps it is divided."""

from collections.abc import Sequence
from operator import attrgetter
from typing import TypeVar

from mnemic.state.errors import ContentErasedError, RollbackConflictError
from mnemic.state.governance import LaterOperation, Plan, Rollback, RollbackOptions, StateChange, Step

Item = TypeVar("Item")
_FIELDS = ("memory_id", "kind", "scope_key", "before", "after")
_CONFLICTS = {
    "protected": "protected memories are rolled back by an administrator only",
    "later": "later operations ({}) changed the same memories: look at the dry run, and undo them too with cascade",
    "twins": "memories that live today say the same, or hold the place: forget those first, or undo what made them",
}


def described(plan: Plan) -> Rollback:
    """The plan as callers see it; of very many memories that takes a while."""

    def part(name: str) -> tuple[StateChange, ...]:
        rows = sorted((row for row in plan.rows if row.part == name), key=attrgetter("memory_id"))
        return tuple(StateChange(**{field: getattr(row, field) for field in _FIELDS}) for row in rows)

    later = (LaterOperation(op_id=row.op_id, reason=row.reason) for row in plan.rows if row.part == "conflict")
    return Rollback(
        op_id=None,
        changes=part("change"),
        later=tuple(later),
        erased=part("erased"),
        twins=part("twin"),
        protected=part("protected"),
        relations=len(plan.whole.links),
    )


def require_allowed(rollback: Rollback, options: RollbackOptions) -> None:
    """Refuses a rollback that something stands against.

    Raises:
        RollbackConflictError, ContentErasedError: by what.
    """
    obstacle = rollback.refused_by(options)
    if obstacle == "erased":
        erased = f"what {len(rollback.erased)} of these memories said was erased: skip_erased rolls back the others"
        raise ContentErasedError(erased, rollback)
    if obstacle is not None:
        raise RollbackConflictError(_CONFLICTS[obstacle].format(len(rollback.later)), rollback)


def steps_of(plan: Plan, most: int) -> list[Step]:
    """Parts of about so many changes: relations first, since messages follow them; then closures; then returns."""
    if plan.whole.size <= most:
        return [plan.whole]
    closed, tied, opened = (
        [row for row in plan.whole.changes if row.turn in turns]
        # what takes the place of another memory that moves goes with it in one step
        for turns in ((0, 1), (2,), (3,))
    )
    changes = (*_parts(closed, most), tied, *_parts(opened, most))
    return [
        *(Step(links=part) for part in _parts(plan.whole.links, most)),
        *(Step(changes=part) for part in changes if part),
    ]


def _parts(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    return [items[start : start + most] for start in range(0, len(items), most)]
