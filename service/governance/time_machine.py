"""The Time Machine for the person concerned: their own memories rolled back, looked at as they were, and erased."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from mnemic.operations.run.identity import to_identity
from mnemic.operations.run.resources import Resources
from mnemic.service.asked import (
    MEMORY_IDS,
    OPERATION_IDS,
    OPERATIONS,
    PAST,
    PROGRESS,
    ROLLING,
    SESSION_SINCE,
    SWITCH,
)
from mnemic.service.governance import rolling_back
from mnemic.service.governance.own import owner
from mnemic.state.checking import checked
from mnemic.state.erasure import Erasure
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import Memory
from mnemic.state.rollback import Operation, Rollback
from mnemic.storage import erasure, time_machine
from mnemic.storage.erasure import Progress
from mnemic.storage.memories import STANDING


class OwnTimeMachine:
    """Rollback and erasure of what belongs to the identity's user and session; for all else there is `Administration`.

    A rollback is an operation of its own: it is audited, announced, and can be undone. No agent's tool reaches it.
    """

    _resources: Resources

    def _transact(self, who: Identity) -> rolling_back.Transact:
        return rolling_back.as_person(self._resources.database, who)

    async def operations(
        self,
        identity: Identity,
        *,
        session_id: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
    ) -> list[Operation]:
        """What was done to the person's memories, newest first.

        Args:
            session_id: only what was done in this session.
            since: only what was done since then.

        Raises:
            InvalidInputError: no user and no session in the identity, or a value that cannot be used.
        """
        who, own = owner(identity)
        asked = checked(OPERATIONS, {"session_id": session_id, "since": since, "limit": limit})
        async with self._resources.database.scoped(who) as scoped:
            return await time_machine.operations(
                scoped, own, session_id=asked["session_id"], since=asked["since"], most=asked["limit"]
            )

    async def undo(
        self,
        identity: Identity,
        *op_ids: UUID | str,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undoes operations on the person's memories as one; a rollback too, which does the undone again.

        Of an operation on shared memories too, the person's part alone is undone.

        Args:
            op_ids: as `operations` tells them.
            cascade: undoes later operations on the same memories too.
            skip_erased: leaves memories as they are whose contents were erased.
            dry_run: tells what it would do, and what stands against it. Where later operations stand against it, they
                alone are told; `cascade=True` with `dry_run=True` tells the rest.

        Raises:
            UnknownOperationError: no such operation on this person's memories.
            RollbackConflictError: a memory was changed later, has a living twin, or is protected; nothing was written.
            ContentErasedError: contents were erased; nothing was written.
            RollbackStoppedError: of many memories a part is rolled back; the same call goes on.
            InvalidInputError: no user and no session in the identity, or a value that cannot be used.
        """
        who, own = owner(identity)
        ops = checked(OPERATION_IDS, {"op_ids": list(op_ids)}, strict=None)["op_ids"]
        how = checked(ROLLING, {"cascade": cascade, "skip_erased": skip_erased, "dry_run": dry_run}, strict=None)
        return await rolling_back.undo(self._transact(who), own, ops, how)

    async def undo_session(
        self,
        identity: Identity,
        session_id: str,
        since: datetime,
        *,
        cascade: bool = False,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Undoes as one operation all that agents did in a session since a moment, to the person's memories.

        Raises:
            UnknownOperationError: nothing was done there since.
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        who, own = owner(identity)
        asked = checked(SESSION_SINCE, {"session_id": session_id, "since": since})
        how = checked(ROLLING, {"cascade": cascade, "skip_erased": skip_erased, "dry_run": dry_run}, strict=None)
        return await rolling_back.undo_session(self._transact(who), own, asked["session_id"], asked["since"], how)

    async def restore(
        self,
        identity: Identity,
        scope_key: str,
        moment: int | datetime,
        *,
        skip_erased: bool = False,
        dry_run: bool = False,
    ) -> Rollback:
        """Gives one of the person's scope keys back the memories that it had at a moment.

        Args:
            moment: a seq of the history: an operation's `last_seq` is the moment after it, `first_seq - 1` the one
                before. Or a time, which within an operation means the moment before it.

        Raises:
            RollbackConflictError, ContentErasedError, RollbackStoppedError: as `undo`.
            InvalidInputError: the scope key is not the person's own, a seq lies within an operation, or a value cannot
                be used.
        """
        who, own = owner(identity)
        past = checked(PAST, {"scope_key": scope_key, "moment": moment})
        how = checked(ROLLING, {"skip_erased": skip_erased, "dry_run": dry_run}, strict=None)
        if past["scope_key"] not in own:
            raise InvalidInputError(
                "scope_key: a person restores their own user's and session's key; an administrator restores what is "
                "shared (`Administration.restore`, or `mnemic restore` without --user)"
            )
        return await rolling_back.restore(
            self._transact(who), past["scope_key"], past["moment"], how, administers=False
        )

    async def as_of(
        self, identity: Identity, scope_key: str, moment: int | datetime, *, with_closed: bool = False
    ) -> list[Memory]:
        """The memories of one of the identity's scope keys as they were at a moment, newest first.

        Of those erased since, no more than a row with the state `purged` and without content.

        Args:
            moment: as in `restore`; a seq within an operation is taken literally.
            with_closed: those too that were superseded, absorbed or soft-deleted by then.

        Raises:
            CategoryRefusedError: the identity's role has no allowlist.
            InvalidInputError: the scope key is none of the identity's, or a value cannot be used.
        """
        who = to_identity(identity)
        past, closed = checked(PAST, {"scope_key": scope_key, "moment": moment}), checked(SWITCH, with_closed)
        key = past["scope_key"]
        if key not in who.scope_keys:
            raise InvalidInputError("scope_key: none of this identity's")
        allowlist = self._resources.categories.of_role(who.role)
        async with self._resources.database.scoped(who, categories=allowlist.categories) as scoped:
            found = await time_machine.as_of(
                scoped, key, await time_machine.seq_of(scoped, key, past["moment"]), with_closed=closed
            )
        return [memory for memory in found if allowlist.standing or memory.kind not in STANDING]

    async def erase(
        self,
        identity: Identity,
        *memory_ids: UUID | str,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Erasure:
        """Erases memories of the person for good, protected ones too, with every kept message that says what they say.

        Gone are contents, vectors, and what the history holds of them; ids, times and digests stay, so that the audit
        chain still verifies. With a memory goes where its words live on among the person's own: what replaced it or was
        replaced by it, what it was merged into or made of, a consolidation that took it in (docs/erasure.md). What
        others said and what is shared stays. Threads stay as they are: delete them with
        `prune_threads(..., keep_latest=False)`.

        An erasure that was broken off goes on with the next one.

        Args:
            memory_ids: what `memories` lists, with `with_closed` those too that are no longer in force, or messages of
                the person that `query` found.
            dry_run: erases nothing, and tells what goes, and what stays and why.
            progress: told after each step how much is erased, and how much is left.

        Returns:
            What was erased; unknown, foreign and erased ids are left out.

        Raises:
            InvalidInputError: no user and no session in the identity, or no ids.
        """
        who, own = owner(identity)
        wanted = checked(MEMORY_IDS, {"memory_ids": list(memory_ids)}, strict=None)["memory_ids"]
        return await self._erase(who, own, wanted, dry_run, progress)

    async def erase_person(
        self, identity: Identity, *, dry_run: bool = False, progress: Progress | None = None
    ) -> Erasure:
        """Erases all that the agent has of the identity's user: memories of and about them, and what they said.

        Their messages go with the answers to them, sessions in which nobody else spoke go whole, and so does every
        memory that any of it went into, in shared scope keys too. Their threads go as well. What other people said
        stays (docs/erasure.md).

        It is done in steps, between which others write; one that was broken off goes on where it is called again.

        Args:
            dry_run: as in `erase`.
            progress: as in `erase`.

        Raises:
            InvalidInputError: no user in the identity.
        """
        who, _ = owner(identity)
        if who.user_id is None:
            raise InvalidInputError("user_id: erasing a person needs the person's id")
        own = [scope_key("user", who.user_id)]
        return await self._erase(who, own, None, dry_run, progress)

    async def _erase(
        self, who: Identity, own: Sequence[str], ids: Sequence[UUID] | None, dry_run: bool, progress: Progress | None
    ) -> Erasure:
        tell = checked(PROGRESS, progress)
        if checked(SWITCH, dry_run):
            return await erasure.foretell(self._resources.database, who, own, ids)
        return await erasure.erase(self._resources.database, who, own, ids, tell)
