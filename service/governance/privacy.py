"""Sharing, export and erasure for the person concerned."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from mnemic.memory.governance import audit, retention, rollback
from mnemic.memory.recall.query import count_messages, list_memories, list_messages
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import MAX_LISTED, AnyId, Limit, check_arguments, to_uuid
from mnemic.state.errors import InvalidInputError
from mnemic.state.governance import Erasure, Rollback, RollbackOptions
from mnemic.state.identity import AnyIdentity, HostId, Identity
from mnemic.state.kinds import KINDS
from mnemic.state.records import Memory, Message
from mnemic.storage.erasure import Progress


@dataclass(frozen=True, repr=False, eq=False)
class Privacy:
    """The rights of a person over their memories and messages."""

    _resources: Resources
    #: Returns the person that acts on their memories.
    _principal: Callable[[Identity], Principal]

    @check_arguments
    async def messages(
        self, identity: AnyIdentity, *, session_id: HostId | None = None, limit: Limit = 100
    ) -> list[Message]:
        """Return the stored messages of the identity's user and session, newest first.

        Pending messages are among them. Messages whose text was removed are not.

        Args:
            identity: the owner of the messages. Messages of the assistant belong to the session, so it needs a
                `session_id`.
            session_id: only messages of this session.
            limit: maximum number of messages; `count_messages` counts all.

        Raises:
            CategoryRefusedError: if the role has no allowlist.
            InvalidInputError: if the limit is outside 1..100,000.
        """
        return await list_messages(self._resources, identity, session_id, limit=limit)

    @check_arguments
    async def count_messages(self, identity: AnyIdentity, *, session_id: HostId | None = None) -> int:
        """Return the number of messages that `messages` returns without a limit.

        Raises:
            CategoryRefusedError: if the role has no allowlist.
        """
        return await count_messages(self._resources, identity, session_id)

    @check_arguments
    async def shared(self, identity: AnyIdentity, *, limit: Limit = 1000) -> list[Memory]:
        """Return the active memories that the identity's actor shared with its groups or the whole agent, newest first.

        Raises:
            CategoryRefusedError: if the role has no allowlist.
            InvalidInputError: if the limit is outside 1..100,000.
        """
        memories = await list_memories(self._resources, identity, KINDS, limit=limit, with_closed=False)
        return [memory for memory in memories if memory.author == identity.actor]

    @check_arguments
    async def unshare(
        self, identity: AnyIdentity, *, cascade: bool = False, skip_erased: bool = False, dry_run: bool = False
    ) -> Rollback:
        """Withdraw the memories that `shared` lists as one operation; with `cascade`, later changes of them too.

        Memories in the person's own scope stay. An administrator can undo it.

        Args:
            identity: the person, with the groups.
            cascade: as in `history.undo`: later operations on the same memories are undone as well.
            skip_erased: as in `history.undo`.
            dry_run: as in `history.undo`.

        Raises:
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `history.undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.unshare(self._principal(identity), identity.actor, options)

    @check_arguments
    async def erase(
        self, identity: AnyIdentity, *ids: AnyId, dry_run: bool = False, progress: Progress | None = None
    ) -> Erasure:
        """Erase memories of the person for good, protected ones too, with every stored message of the same content.

        Contents, vectors and the contents in the history are removed. Ids, times and digests stay, so that the audit
        chain still verifies. The person's other memories with its words go as well: its successors and predecessors,
        merges, and consolidations that absorbed it (docs/erasure.md). Messages of other people stay. Threads stay:
        `threads.delete` deletes them.

        An erasure that broke off is completed by the next one.

        Args:
            identity: the person.
            ids: memories from `memories`, also with `with_closed`, or messages of the person from `query`.
            dry_run: erase nothing, and return the items to erase, and the items that stay with the reason.
            progress: called after each step with the numbers of erased and remaining items.

        Returns:
            The erased items, without unknown, foreign and already erased ids.

        Raises:
            InvalidInputError: if the identity has no user and no session, or there are no ids.
        """
        if not 0 < len(ids) <= MAX_LISTED:
            raise InvalidInputError(f"ids: name 1 to {MAX_LISTED} memories; `memories` lists them")
        item_ids = [to_uuid(id) for id in ids]
        return await retention.erase(self._principal(identity), item_ids, dry_run=dry_run, progress=progress)

    @check_arguments
    async def erase_person(
        self, identity: AnyIdentity, *, dry_run: bool = False, progress: Progress | None = None
    ) -> Erasure:
        """Erase all data that the agent has of the identity's user: memories of and about them, and their messages.

        Answers to their messages go too, sessions without other speakers go whole, and so does every memory that rests
        on any of it, in shared scope keys too. Their threads go as well. Messages of other people stay
        (docs/erasure.md).

        It works in steps, between which others write; call it again to complete one that broke off.

        Args:
            identity: the person.
            dry_run: as in `erase`.
            progress: as in `erase`.

        Raises:
            InvalidInputError: if the identity has no user.
        """
        return await retention.erase(self._principal(identity), None, dry_run=dry_run, progress=progress)

    @check_arguments
    def export_audit(self, identity: AnyIdentity) -> AsyncIterator[str]:
        """Yield the lines (JSON) of a file with the events of the person's own memories, as parts of the agent's chain.

        Rows of the identity's user and session have their contents, unless erased; all other rows have only the
        hashes of the chain. `check_export`, or sha256 alone, checks that no row was changed, moved or taken from
        another chain. Only the operator of the database can check whether a row without contents is the person's own.

        Raises:
            CategoryRefusedError: if the identity's role is not `owner`; the export is the person's view.
            InvalidInputError: if the identity has no user and no session.
        """
        return audit.export(self._principal(identity))
