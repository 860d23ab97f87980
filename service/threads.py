"""Threads of agents in the service's own database, as methods of `Mnemic`: a checkpointer, copies, pruning."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from mnemic.operations.run.identity import to_identity
from mnemic.operations.run.resources import Resources
from mnemic.service.asked import SWITCH, THREAD_ID, THREAD_IDS
from mnemic.state.checking import checked
from mnemic.state.errors import InvalidInputError, MissingIdentityError, RefusedIdentityError
from mnemic.state.identity import Identity
from mnemic.state.threads import ThreadStanding
from mnemic.storage import thread_copies
from mnemic.storage.threads import ThreadOwner, ThreadSaver

_NOBODY: Final = (
    "nobody's thread: run the graph with memory.thread(identity) as its config, or with context=identity, or compile "
    "it with memory.checkpointer(identity)"
)
#: Where LangGraph puts the runtime of a run, with its context, for whoever is given the run's config.
RUNTIME: Final = "__pregel_runtime"


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
            return ThreadSaver(self._resources.database, thread_owner_of)
        return ThreadSaver(self._resources.database, partial(_owner_alone, _owner(to_identity(identity))))

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

    async def threads(self, identity: Identity) -> list[ThreadStanding]:
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
        target = self.checkpointer(to_identity(identity))
        named = await thread_copies.thread_ids(source) if thread_ids is None else _ids(thread_ids)
        return sum([await thread_copies.copy_thread(source, target, thread_id) for thread_id in named])

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


def thread_owner_of(config: RunnableConfig | None) -> ThreadOwner:
    """Whose thread a run is about: as its config says, else its context.

    Raises:
        MissingIdentityError: neither says so.
        RefusedIdentityError: they name different people.
        InvalidInputError: an id in it cannot be used.
    """
    named = _named(config)
    if not named:
        raise MissingIdentityError(_NOBODY)
    if len(named) > 1:
        raise RefusedIdentityError("configurable: agent_id and user_id are not those of the run's context")
    return named.pop()


def _owner_alone(owner: ThreadOwner, config: RunnableConfig | None) -> ThreadOwner:
    """Whom a checkpointer is for, whatever the run; one for somebody else would get to read the thread."""
    if _named(config) - {owner}:
        raise RefusedIdentityError("the run is not for whom this checkpointer is: compile with memory.checkpointer()")
    return owner


def _named(config: RunnableConfig | None) -> set[ThreadOwner]:
    """Whom a run's config and its context name."""
    configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
    context = getattr(configurable.get(RUNTIME), "context", None)
    named = set[ThreadOwner]()
    with suppress(MissingIdentityError):  # a host's own context may name nobody
        named.add(_owner(to_identity(context)))
    if configurable.get("agent_id") is not None:
        named.add(_owner(Identity(agent_id=configurable["agent_id"], user_id=configurable.get("user_id"))))
    return named


def _owner(who: Identity) -> ThreadOwner:
    return ThreadOwner(who.agent_id, who.user_id or "")


def _ids(thread_ids: Sequence[str]) -> Sequence[str]:
    return checked(THREAD_IDS, {"thread_ids": thread_ids})["thread_ids"]
