"""Threads of agents in the service's own database, as methods of `Mnemic`: a checkpointer, copies, pruning."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import Field, SkipValidation

from mnemic.operations.threads import copy_threads, owner_of_identity, owner_of_run, require_owner
from mnemic.service.base import MemoryBase
from mnemic.state.checking import MAX_LISTED, check_arguments
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import AnyIdentity, HostId, Identity, to_identity
from mnemic.state.supervisor import ThreadStatus
from mnemic.storage.threads import ThreadSaver

ThreadIds = Annotated[Sequence[str], Field(min_length=1, max_length=MAX_LISTED)]


class Threads(MemoryBase):
    """Every thread belongs to an agent and one user, or to nobody in particular, and exists for nobody else."""

    def checkpointer(self, identity: Identity | None = None) -> ThreadSaver:
        """A checkpointer for any graph, over this service's own pool; its threads are erased with their person.

        Args:
            identity: whose threads it keeps; None: those of whoever each run is for, by its config (`thread`) or its
                context. Only a checkpointer with an identity can list everything, copy, delete and prune.

        Raises:
            InvalidInputError, MissingIdentityError: an identity that cannot be used.
        """
        if identity is None:
            return ThreadSaver(self.resources.database, owner_of_run)
        return ThreadSaver(self.resources.database, partial(require_owner, owner_of_identity(to_identity(identity))))

    @check_arguments
    def thread(self, identity: AnyIdentity, thread_id: HostId | None = None) -> RunnableConfig:
        """The config of a run: whose thread it is, and which.

        Args:
            identity: whose thread it is.
            thread_id: None: the identity's session.

        Raises:
            InvalidInputError: no thread and no session, or an id that cannot be used.
        """
        named = identity.session_id if thread_id is None else thread_id
        if named is None:
            raise InvalidInputError("thread_id: name a thread, or a session in the identity")
        user = {"user_id": identity.user_id} if identity.user_id else {}
        return {"configurable": {"thread_id": named, "agent_id": identity.agent_id, **user}}

    @check_arguments
    async def threads(self, identity: AnyIdentity) -> list[ThreadStatus]:
        """The identity's threads and where they stand, the one that moved last first."""
        return await self.checkpointer(identity).statuses()

    @check_arguments
    async def copy_threads(
        self,
        source: SkipValidation[BaseCheckpointSaver[Any]],
        identity: AnyIdentity,
        thread_ids: ThreadIds | None = None,
    ) -> int:
        """Copies threads of another checkpointer, in memory or in tables of its own; the source stays as it is.

        Histories, subgraphs and interrupts that wait come along. Done again it adds what is new and changes nothing
        else. End the source's runs first.

        Args:
            source: any checkpointer with async methods.
            identity: to whom the threads belong from now on.
            thread_ids: None: all that the source has, which has to read them twice.

        Returns:
            How many checkpoints the threads have.

        Raises:
            InvalidInputError: an argument or a value in a thread that cannot be used.
            DatabaseUnavailableError: the database cannot be had; what was copied stays.
        """
        if not isinstance(source, BaseCheckpointSaver):
            raise InvalidInputError("source: a checkpointer of LangGraph's")
        return await copy_threads(source, self.checkpointer(identity), thread_ids)

    @check_arguments
    async def prune_threads(self, identity: AnyIdentity, *thread_ids: str, keep_latest: bool = True) -> None:
        """Takes the history of the identity's threads away, so that they can still go on; or all of them.

        A pending interrupt and what a `checkpointer=True` subgraph knows stay. Ids of others are passed over.

        Args:
            identity: whose threads they are.
            thread_ids: which.
            keep_latest: off: the threads are gone.

        Raises:
            InvalidInputError: no ids, or a value that cannot be used.
            ConcurrentChangeError: a thread was changed meanwhile; the ones named before it are done.
        """
        if not 1 <= len(thread_ids) <= MAX_LISTED:
            raise InvalidInputError("thread_ids: name the threads; `threads` lists them")
        await self.checkpointer(identity).aprune(thread_ids, strategy="keep_latest" if keep_latest else "delete")
