"""Threads of agents in the service's own database, as methods of `Mnemic`: a checkpointer, copies, pruning."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from mnemic.operations.run.identity import to_identity
from mnemic.operations.run.resources import Resources
from mnemic.operations.threads import copy_threads, owner_of_identity, owner_of_run, require_owner
from mnemic.service.asked import SWITCH, THREAD_ID, THREAD_IDS
from mnemic.state.checking import checked
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.threads import ThreadStatus
from mnemic.storage.threads import ThreadSaver


class Threads:
    """Every thread belongs to an agent and one user, or to nobody in particular, and exists for nobody else."""

    _resources: Resources

    def checkpointer(self, identity: Identity | None = None) -> ThreadSaver:
        """A checkpointer for any graph, over this service's own pool; its threads are erased with their person.

        Args:
            identity: whose threads it keeps; None: those of whoever each run is for, by its config (`thread`) or its
                context. Only a checkpointer with an identity can list everything, copy, delete and prune.

        Raises:
            InvalidInputError, MissingIdentityError: an identity that cannot be used.
        """
        if identity is None:
            return ThreadSaver(self._resources.database, owner_of_run)
        return ThreadSaver(self._resources.database, partial(require_owner, owner_of_identity(to_identity(identity))))

    def thread(self, identity: Identity, thread_id: str | None = None) -> RunnableConfig:
        """The config of a run: whose thread it is, and which.

        Args:
            thread_id: None: the identity's session.

        Raises:
            InvalidInputError: no thread and no session, or an id that cannot be used.
        """
        who = to_identity(identity)
        named = who.session_id if thread_id is None else checked(THREAD_ID, thread_id)
        if named is None:
            raise InvalidInputError("thread_id: name a thread, or a session in the identity")
        user = {"user_id": who.user_id} if who.user_id else {}
        return {"configurable": {"thread_id": named, "agent_id": who.agent_id, **user}}

    async def threads(self, identity: Identity) -> list[ThreadStatus]:
        """The identity's threads and where they stand, the one that moved last first."""
        return await self.checkpointer(to_identity(identity)).standings()

    async def copy_threads(
        self, source: BaseCheckpointSaver[Any], identity: Identity, thread_ids: Sequence[str] | None = None
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
        ids = None if thread_ids is None else _ids(thread_ids)
        return await copy_threads(source, self.checkpointer(to_identity(identity)), ids)

    async def prune_threads(self, identity: Identity, *thread_ids: str, keep_latest: bool = True) -> None:
        """Takes the history of the identity's threads away, so that they can still go on; or all of them.

        A pending interrupt and what a `checkpointer=True` subgraph knows stay. Ids of others are passed over.

        Args:
            keep_latest: off: the threads are gone.

        Raises:
            InvalidInputError: no ids, or a value that cannot be used.
            ConcurrentChangeError: a thread was changed meanwhile; the ones named before it are done.
        """
        if not thread_ids:
            raise InvalidInputError("thread_ids: name the threads; `threads` lists them")
        strategy = "keep_latest" if checked(SWITCH, keep_latest) else "delete"
        await self.checkpointer(to_identity(identity)).aprune(_ids(thread_ids), strategy=strategy)


def _ids(thread_ids: Sequence[str]) -> Sequence[str]:
    return checked(THREAD_IDS, {"thread_ids": thread_ids})["thread_ids"]
