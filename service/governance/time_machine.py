"""Rollback as methods of `Mnemic` (for one person) and of `Administration` (for an agent)."""

from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

from mnemic.memory.governance import rollback
from mnemic.memory.runtime.principal import Principal
from mnemic.state.checking import AnyId, Limit, Moment, Time, check_arguments, to_uuid
from mnemic.state.errors import InvalidInputError
from mnemic.state.governance import Operation, Rollback, RollbackOptions
from mnemic.state.identity import HostId

#: The identity of the person concerned, for `Mnemic`; the id of an agent, for `Administration`.
Whose = TypeVar("Whose")
#: Operations that may be named to be undone at once; of a session's there may be more.
MAX_OPERATIONS: Final = 1000


class TimeMachine(ABC, Generic[Whose]):
    """Operations on memories, and their rollback. No tool of an agent reaches it.

    A rollback is an operation of its own: it is audited, announced, and can be undone. `Mnemic` takes the identity of
    the person concerned and rolls back what belongs to that user and session. `Administration` takes an agent's id and
    rolls back anything of that agent.
    """

    @abstractmethod
    def _acting(self, whose: Whose) -> Principal:
        """Return the actor on these memories."""

    @check_arguments
    async def operations(
        self,
        whose: Whose,
        *,
        session_id: HostId | None = None,
        since: Time | None = None,
        limit: Limit = 100,
    ) -> list[Operation]:
        """Return the operations on memories, newest first.

        Args:
            whose: the identity of the person concerned; for `Administration` the id of an agent.
            session_id: only operations of this session.
            since: only operations since then.
            limit: maximum number of operations.

        Raises:
            InvalidInputError: no user and no session in the identity, or a value that cannot be used.
        """
        return await rollback.operations(self._acting(whose), session_id=session_id, since=since, limit=limit)

    @check_arguments
    async def undo(
        self, whose: Whose, *op_ids: AnyId, cascade: bool = False, skip_erased: bool = False, dry_run: bool = False
    ) -> Rollback:
        """Undo operations as one operation. A rollback can be undone too.

        A person undoes only their own part of an operation that also changed shared memories.

        Args:
            whose: as in `operations`.
            op_ids: as `operations` returns them.
            cascade: undo later operations on the same memories too.
            skip_erased: leave memories with erased contents unchanged.
            dry_run: change nothing, and return the changes and the obstacles. Later operations on the same memories are
                returned alone; `cascade=True` with `dry_run=True` returns the rest.

        Raises:
            UnknownOperationError: no such operation on these memories.
            RollbackConflictError: a memory was changed later, has an active duplicate, or is protected (which stops a
                person only); nothing was written.
            ContentErasedError: contents were erased; nothing was written.
            RollbackStoppedError: of many memories a part is rolled back; the same call goes on.
            InvalidInputError: no user and no session in the identity, or a value that cannot be used.
        """
        if not 0 < len(op_ids) <= MAX_OPERATIONS:
            raise InvalidInputError(f"op_ids: name 1 to {MAX_OPERATIONS} operations; `operations` lists them")
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.undo(self._acting(whose), [to_uuid(op_id) for op_id in op_ids], options)

    @check_arguments
    async def undo_session(
        self,
        whose: Whose,
        session_id: HostId,
        since: Time,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undo as one operation all operations of agents in a session since a moment.

        Raises:
            UnknownOperationError: there is no operation in the session since then.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.undo(self._acting(whose), None, options, session_id=session_id, since=since)

    @check_arguments
    async def undo_refinement(
        self,
        whose: Whose,
        refinement_id: AnyId,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undo a refinement as one operation; one that protected memories needs an administrator.

        Raises:
            UnknownOperationError: no such refinement of these memories, or one that changed none.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.undo(self._acting(whose), None, options, refinement_id=to_uuid(refinement_id))

    @check_arguments
    async def undo_run(
        self,
        whose: Whose,
        run_id: AnyId,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undo a run of maintenance as one operation; a person undoes only their own part.

        Purged memories do not come back.

        Args:
            whose: as in `operations`.
            run_id: as `maintenance_runs` returns it.
            cascade: as in `undo`.
            skip_erased: as in `undo`.
            dry_run: as in `undo`.

        Raises:
            UnknownOperationError: There is no such run of these memories, or it changed none.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: As in `undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.undo(self._acting(whose), None, options, run_id=to_uuid(run_id))

    @check_arguments
    async def restore(
        self, whose: Whose, scope_key: str, moment: Moment, *, skip_erased: bool = False, dry_run: bool = False
    ) -> Rollback:
        """Restore the memories that a scope key had at a moment; an administrator restores protection too.

        Args:
            whose: as in `operations`.
            scope_key: of a person, their user's or their session's.
            moment: a revision of the history: an operation's `last_revision` is the moment after it,
                `first_revision - 1` the one before. Or a time, which within an operation means the moment before it.
            skip_erased: as in `undo`.
            dry_run: as in `undo`.

        Raises:
            RollbackConflictError, ContentErasedError, RollbackStoppedError: as `undo`.
            InvalidInputError: the scope key is not the person's own, a revision lies within an operation, or a
                value cannot be used.
        """
        options = RollbackOptions(skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.restore(self._acting(whose), scope_key, moment, options)
