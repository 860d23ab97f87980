"""Operations on memories, their rollback, and past states: for one person, and for an administrator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mnemic.memory.governance import rollback
from mnemic.memory.recall.query import memory_history, updates_since
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import AnyId, Limit, Moment, Revision, Time, check_arguments, to_uuid
from mnemic.state.errors import InvalidInputError
from mnemic.state.governance import Operation, PastMemory, Rollback, RollbackOptions
from mnemic.state.identity import AnyIdentity, HostId, Identity
from mnemic.state.query import Updates
from mnemic.state.records import HistoryEvent, Memory

#: Maximum number of operations that one call may name; those of a session may be more.
MAX_OPERATIONS: Final = 1000


@dataclass(frozen=True, repr=False, eq=False)
class Rollbacks:
    """Operations on memories, and their rollback. No tool of an agent reaches it.

    A rollback is an operation of its own: it is audited, announced, and can be undone. A person rolls back memories of
    their own user and session. An administrator rolls back any memory of the identity's agent.
    """

    #: Returns the person, or the administrator, that acts on the memories of an identity.
    _principal: Callable[[Identity], Principal]

    @check_arguments
    async def operations(
        self,
        identity: AnyIdentity,
        *,
        session_id: HostId | None = None,
        since: Time | None = None,
        limit: Limit = 100,
    ) -> list[Operation]:
        """Return the operations on memories, newest first.

        Args:
            identity: the person concerned; for an administrator, the agent.
            session_id: only operations of this session.
            since: only operations from this time on.
            limit: maximum number of operations.

        Raises:
            InvalidInputError: if a person's identity has no user and no session, or a value cannot be used.
        """
        return await rollback.operations(self._principal(identity), session_id=session_id, since=since, limit=limit)

    @check_arguments
    async def undo(
        self,
        identity: AnyIdentity,
        *ids: AnyId,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undo operations as one operation. A rollback can be undone too.

        A person undoes only their own part of an operation that also changed shared memories.

        Args:
            identity: as in `operations`.
            ids: the operations.
            cascade: undo later operations on the same memories too.
            skip_erased: leave memories with erased contents unchanged.
            dry_run: change nothing, and return the changes and the obstacles. Later operations on the same memories are
                returned alone; `cascade=True` with `dry_run=True` returns the rest.

        Raises:
            UnknownOperationError: if there is no such operation on these memories.
            RollbackConflictError: if a memory was changed later, has an active duplicate, or is protected (which stops
                a person only); nothing was written.
            ContentErasedError: if contents were erased; nothing was written.
            RollbackStoppedError: if only a part of many memories was rolled back; the same call goes on.
            InvalidInputError: if a person's identity has no user and no session, or a value cannot be used.
        """
        if not 0 < len(ids) <= MAX_OPERATIONS:
            raise InvalidInputError(f"ids: name 1 to {MAX_OPERATIONS} operations; `history.operations` lists them")
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.undo(self._principal(identity), [to_uuid(id) for id in ids], options)

    @check_arguments
    async def undo_session(
        self,
        identity: AnyIdentity,
        session_id: HostId,
        since: Time,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undo all operations of agents in a session since a time, as one operation.

        Args:
            identity: as in `operations`.
            session_id: the session.
            since: the time of the first operation to undo.
            cascade: as in `undo`.
            skip_erased: as in `undo`.
            dry_run: as in `undo`.

        Raises:
            UnknownOperationError: if there is no operation in the session since then.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.undo(self._principal(identity), None, options, session_id=session_id, since=since)

    @check_arguments
    async def undo_refinement(
        self,
        identity: AnyIdentity,
        id: AnyId,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undo a refinement as one operation; one that protected memories needs an administrator.

        Args:
            identity: as in `operations`.
            id: the refinement.
            cascade: as in `undo`.
            skip_erased: as in `undo`.
            dry_run: as in `undo`.

        Raises:
            UnknownOperationError: if there is no such refinement of these memories, or it changed none.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.undo(self._principal(identity), None, options, refinement_id=to_uuid(id))

    @check_arguments
    async def undo_run(
        self,
        identity: AnyIdentity,
        id: AnyId,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undo a run of maintenance as one operation; a person undoes only their own part.

        Purged memories do not come back.

        Args:
            identity: as in `operations`.
            id: the run, from `admin.maintenance_runs`.
            cascade: as in `undo`.
            skip_erased: as in `undo`.
            dry_run: as in `undo`.

        Raises:
            UnknownOperationError: if there is no such run of these memories, or it changed none.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.undo(self._principal(identity), None, options, run_id=to_uuid(id))

    @check_arguments
    async def restore(
        self,
        identity: AnyIdentity,
        scope_key: str,
        at: Moment,
        *,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Restore the memories that a scope key had at a revision or a time; an administrator restores protection too.

        Args:
            identity: as in `operations`.
            scope_key: the memories to restore; a person's own user's or session's.
            at: a revision or a time. An operation's `last_revision` is the state after it, and `first_revision - 1` the
                state before it. A time within an operation means the state before it.
            skip_erased: as in `undo`.
            dry_run: as in `undo`.

        Raises:
            RollbackConflictError, ContentErasedError, RollbackStoppedError: as `undo`.
            InvalidInputError: if the scope key is not the person's own, a revision lies within an operation, or a
                value cannot be used.
        """
        options = RollbackOptions(skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.restore(self._principal(identity), scope_key, at, options)


@dataclass(frozen=True, repr=False, eq=False)
class History(Rollbacks):
    """The history of memories for the person concerned, with contents."""

    _resources: Resources

    @check_arguments
    async def as_of(
        self, identity: AnyIdentity, scope_key: str, at: Moment, *, with_closed: bool = False
    ) -> list[Memory]:
        """Return the memories that a scope key had at a revision or a time, newest first.

        A memory that was erased since is a row with the state `purged` and without content.

        Args:
            identity: identity of the run; its role limits the categories.
            scope_key: one of the identity's scope keys.
            at: as in `restore`; a revision within an operation is taken literally.
            with_closed: whether to include memories that were superseded, absorbed or soft-deleted by then.

        Raises:
            CategoryRefusedError: if the identity's role has no allowlist.
            InvalidInputError: if the scope key is none of the identity's, or a value cannot be used.
        """
        return await rollback.as_of(self._resources, identity, scope_key, at, with_closed=with_closed)

    @check_arguments
    async def events(self, identity: AnyIdentity, id: AnyId) -> list[HistoryEvent]:
        """Return all events of one memory, oldest first; none for an unknown or foreign id.

        A memory that the identity's role may not read counts as unknown; the role `owner` reads all. A merged memory
        leads to the merge, and back (`merged_into`, `merged_from`). A fact leads to the facts that it replaced, and to
        its own replacement (`supersedes`, `superseded_by`).

        Args:
            identity: identity of the run; its role limits the categories.
            id: the memory.

        Raises:
            CategoryRefusedError: if the role has no allowlist.
            InvalidInputError: if the value is no id.
        """
        return await memory_history(self._resources, identity, to_uuid(id))

    @check_arguments
    async def updates(self, identity: AnyIdentity, revision: Revision | None = None) -> Updates:
        """Return changes of the identity's memories since a revision, each with its sign and the current text.

        The updates that a session gets with its recalls are not affected.

        Args:
            identity: identity of the run; the role `owner` reads all memories.
            revision: the revision of an earlier result; None to get only the current revision.

        Raises:
            CategoryRefusedError: if the role has no allowlist.
            InvalidInputError: if the value is no revision.
        """
        return await updates_since(self._resources, identity, revision)


@dataclass(frozen=True, repr=False, eq=False)
class BlindHistory(Rollbacks):
    """The history of an agent's memories for an administrator, without contents."""

    @check_arguments
    async def as_of(
        self, identity: AnyIdentity, scope_key: str, at: Moment, *, with_closed: bool = False
    ) -> list[PastMemory]:
        """Return the memories that a scope key had at a revision or a time, without their texts.

        Args:
            identity: names the agent.
            scope_key: any scope key of the agent.
            at: as in `restore`; a revision within an operation is taken literally.
            with_closed: whether to include memories that were superseded, absorbed or soft-deleted by then.

        Raises:
            InvalidInputError: if a value cannot be used.
        """
        return await rollback.metadata_as_of(self._principal(identity), scope_key, at, with_closed=with_closed)
