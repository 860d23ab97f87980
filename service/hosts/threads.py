"""Threads of LangGraph, stored with the memory and erased with their person."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import Field

from mnemic.memory.messages.threads import copy_threads
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import MAX_LISTED, check_arguments
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import AnyIdentity, HostId, Identity, to_identity
from mnemic.state.supervisor import ThreadStatus
from mnemic.storage.threads import ThreadOwner, ThreadSaver

#: Ids of threads as a caller gives them.
ThreadIds = Annotated[Sequence[str], Field(min_length=1, max_length=MAX_LISTED)]


@dataclass(frozen=True, repr=False, eq=False)
class Threads:
    """Threads of an agent. Each belongs to one user, or to no user, and is invisible to all others."""

    _resources: Resources

    def checkpointer(self, identity: Identity | None = None) -> ThreadSaver:
        """Return a checkpointer for any graph, over the connections of this `Mnemic`.

        Args:
            identity: the owner of its threads; None for the owner of each run, by its config (`config`) or its
                context. Only a checkpointer with an identity can list, copy, delete and prune.

        Raises:
            InvalidInputError, MissingIdentityError: if the identity cannot be used.
        """
        owner = None if identity is None else ThreadOwner.of(to_identity(identity))
        home = self._resources.database.home

        async def make() -> ThreadSaver:  # its library looks for the running event loop
            return ThreadSaver(self._resources.database, owner)

        if home.is_current:
            return ThreadSaver(self._resources.database, owner)
        return home.run(make)

    @check_arguments
    def config(self, identity: AnyIdentity, id: HostId | None = None) -> RunnableConfig:
        """Return the config of a run on a thread of the identity.

        Args:
            identity: the owner of the thread.
            id: the thread; None for the identity's session.

        Raises:
            InvalidInputError: if there is no thread and no session, or an id cannot be used.
        """
        thread_id = identity.session_id if id is None else id
        if thread_id is None:
            raise InvalidInputError("id: name a thread, or a session in the identity")
        user = {"user_id": identity.user_id} if identity.user_id else {}
        return {"configurable": {"thread_id": thread_id, "agent_id": identity.agent_id, **user}}

    @check_arguments
    async def list(self, identity: AnyIdentity) -> Sequence[ThreadStatus]:
        """Return the states of the identity's threads, the last changed one first."""
        return await self.checkpointer(identity).statuses()

    @check_arguments
    async def copy(self, identity: AnyIdentity, source: BaseCheckpointSaver[Any], ids: ThreadIds | None = None) -> int:
        """Copy threads of another checkpointer, with their history, subgraphs and interrupts; keep the source.

        A second copy adds new checkpoints and changes nothing else. End the source's runs first.

        Args:
            identity: the owner of the copies.
            source: any checkpointer with async methods.
            ids: the threads; None for all of the source, which are read twice.

        Returns:
            The number of checkpoints of these threads.

        Raises:
            InvalidInputError: if an argument, or a value in a thread, cannot be used.
            DatabaseUnavailableError: if the database cannot be reached; finished copies stay.
        """
        return await copy_threads(source, self.checkpointer(identity), ids)

    @check_arguments
    async def prune(self, identity: AnyIdentity, *ids: str) -> None:
        """Remove the history of threads, so that they can still go on; ignore foreign ids.

        The latest checkpoint stays, with a pending interrupt and the state of `checkpointer=True` subgraphs.

        Args:
            identity: the owner of the threads.
            ids: the threads.

        Raises:
            InvalidInputError: if there are no ids, or a value cannot be used.
            ConcurrentChangeError: if a thread was changed meanwhile; the threads before it are pruned.
        """
        await self.checkpointer(identity).aprune(_required(ids), strategy="keep_latest")

    @check_arguments
    async def delete(self, identity: AnyIdentity, *ids: str) -> None:
        """Delete threads; ignore foreign ids.

        Args:
            identity: the owner of the threads.
            ids: the threads.

        Raises:
            InvalidInputError: if there are no ids, or a value cannot be used.
            ConcurrentChangeError: if a thread was changed meanwhile; the threads before it are deleted.
        """
        await self.checkpointer(identity).aprune(_required(ids), strategy="delete")


def _required(ids: tuple[str, ...]) -> tuple[str, ...]:
    if not 1 <= len(ids) <= MAX_LISTED:
        raise InvalidInputError("ids: name the threads; `threads.list` lists them")
    return ids
