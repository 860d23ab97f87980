"""What the person concerned and an administrator roll back alike, within a transaction of theirs."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from mnemic.service.asked import Rolling
from mnemic.state.errors import UnknownOperationError
from mnemic.state.rollback import Rollback
from mnemic.storage import refinements, time_machine
from mnemic.storage.database import Scoped


async def undo(scoped: Scoped, keys: Sequence[str] | None, ops: Sequence[UUID], how: Rolling) -> Rollback:
    """Undoes operations as one: a person's on these scope keys alone; None: an administrator's on all.

    Raises:
        UnknownOperationError, RollbackConflictError, ContentErasedError: nothing was written.
    """
    return await time_machine.undo(
        scoped, keys, ops, cascade=how.cascade, skip_erased=how.skip_erased, apply=not how.dry_run
    )


async def undo_session(
    scoped: Scoped, keys: Sequence[str] | None, session_id: str, since: datetime, how: Rolling
) -> Rollback:
    """Undoes what agents did in a session since a moment, as one.

    Raises:
        UnknownOperationError, RollbackConflictError, ContentErasedError: nothing was written.
    """
    return await undo(scoped, keys, await time_machine.of_session(scoped, keys, session_id, since), how)


async def undo_refinement(scoped: Scoped, keys: Sequence[str] | None, refinement_id: UUID, how: Rolling) -> Rollback:
    """Undoes what one refinement did, as one.

    Raises:
        UnknownOperationError, RollbackConflictError, ContentErasedError: nothing was written.
    """
    ops = await refinements.operations(scoped, keys, refinement_id)
    if not ops:
        raise UnknownOperationError(await _why_no_operations(scoped, keys, refinement_id))
    return await undo(scoped, keys, ops, how)


async def _why_no_operations(scoped: Scoped, keys: Sequence[str] | None, refinement_id: UUID) -> str:
    if not await refinements.is_known(scoped, refinement_id):
        return "no such refinement: `refinements` (`mnemic refinements`) lists them; nothing was written"
    changed = "nothing" if keys is None else "none of this person's memories"
    return f"this refinement changed {changed}: there is nothing to undo"


async def restore(scoped: Scoped, key: str, moment: int | datetime, how: Rolling, *, administers: bool) -> Rollback:
    """Gives a scope key back what it had at a moment.

    Raises:
        InvalidInputError, RollbackConflictError, ContentErasedError: nothing was written.
    """
    seq = await time_machine.seq_of(scoped, key, moment)
    return await time_machine.restore(
        scoped, key, seq, administers=administers, skip_erased=how.skip_erased, apply=not how.dry_run
    )
