"""Memory in a host's own agent or graph, as methods of `Mnemic`: tools, middleware, nodes, threads."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import Runtime
from pydantic import Field

from mnemic.memory.messages.incoming import require_speaker
from mnemic.memory.messages.threads import copy_threads
from mnemic.memory.messages.turn import RecallOptions, form_later, observe_turn, recall_turn
from mnemic.memory.runtime.identity import identity_of
from mnemic.service.conversation import MemoryBase
from mnemic.service.hosts.middleware import MemoryMiddleware
from mnemic.state.checking import MAX_LISTED, check_arguments
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import SearchMode
from mnemic.state.identity import AnyIdentity, HostId, Identity, to_identity
from mnemic.state.query import BudgetTokens
from mnemic.state.supervisor import MemoryState, ThreadStatus
from mnemic.storage.threads import ThreadOwner, ThreadSaver
from mnemic.tools.memory import make_tools


class Hosting(MemoryBase):
    """What a host takes into an agent or a graph of its own; the identity is that of the run's context."""

    @check_arguments
    def tools(self, role: str = "supervisor") -> list[BaseTool]:
        """The tools of an agent in this role, for LangChain's `create_agent`, `ToolNode` or `bind_tools`.

        They take the identity from the context of the run that calls them, and act in this role whatever it says.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: the role is no text.
        """
        return make_tools(self._provide, role, self.resources.categories, self.resources.database.loop)

    @check_arguments
    def middleware(
        self,
        role: HostId = "supervisor",
        *,
        search: SearchMode = "auto",
        budget_tokens: BudgetTokens | None = None,
        observe: bool = True,
        form: bool = True,
        several_speakers: bool = False,
    ) -> MemoryMiddleware:
        """Memory for `langchain.agents.create_agent`: the context, the role's tools, and what was said goes in.

        Args:
            role: the agent's; its allowlist holds, whatever the identity says.
            search: as in `recall`.
            budget_tokens: as in `recall`.
            observe: off for a subagent, whose user is another model.
            form: has formed what is due after a turn, without waiting for it; off where another process forms.
            several_speakers: as in `observe`.

        Raises:
            InvalidInputError: an argument cannot be used.
        """
        recall = RecallOptions(role=role, search=search, budget_tokens=budget_tokens)
        turn = {"observe": observe, "form": form, "several_speakers": several_speakers}
        return MemoryMiddleware(self, self.tools(role), recall, **turn)

    @check_arguments
    def recall_node(
        self,
        *,
        role: HostId | None = None,
        search: SearchMode = "auto",
        budget_tokens: BudgetTokens | None = None,
        messages_key: str = "messages",
    ) -> Callable[..., Awaitable[MemoryState]]:
        """A node for a graph whose state is a `MemoryState`: leaves what memory says to this turn in it.

        It only reads the database. It raises `MissingIdentityError` if a message of a user belongs to
        no user.

        Args:
            role: whose allowlist holds; None: that of the identity's role.
            search: as in `recall`; `always` is for the agent that is not sure of its answer.
            budget_tokens: as in `recall`.
            messages_key: the channel that holds the conversation.

        Raises:
            InvalidInputError: an argument cannot be used.
        """
        options = RecallOptions(role=role, search=search, budget_tokens=budget_tokens)

        async def recall(state: Any, runtime: Runtime[Any]) -> MemoryState:
            identity, messages = identity_of(runtime), _conversation(state, messages_key)
            # whether a message may name its speaker is for `observe_node` to decide
            require_speaker(messages, identity, several_speakers=True)
            recalled = await recall_turn(self.graphs.recall, identity, messages, options)
            if options.in_role(identity).role != identity.role:
                del recalled["memory_revision"]  # the host observes in its own role, which was told of nothing here
            return recalled

        return recall

    @check_arguments
    def observe_node(
        self, *, messages_key: str = "messages", several_speakers: bool = False
    ) -> Callable[..., Awaitable[None]]:
        """A node that stores the conversation for formation, each message once; it waits for no model.

        It belongs at the end of a turn, and also right after START if a node between may remove messages or fail. It
        raises `MissingIdentityError` if a message of a user belongs to no user.

        Args:
            messages_key: the channel that holds the conversation.
            several_speakers: as in `observe`.

        Raises:
            InvalidInputError: an argument cannot be used.
        """

        async def observe(state: Any, runtime: Runtime[Any]) -> None:
            revision, messages = state.get("memory_revision"), _conversation(state, messages_key)
            identity = identity_of(runtime)
            require_speaker(messages, identity, several_speakers=several_speakers)
            await observe_turn(self.resources, identity, messages, revision=revision, several_speakers=several_speakers)

        return observe

    def formation_node(self) -> Callable[..., Awaitable[None]]:
        """A node that has formed what is due, as `form_later` does: the turn waits for no model."""

        async def form(state: Any, runtime: Runtime[Any]) -> None:
            form_later(self.resources, self.graphs.formation, identity_of(runtime))

        return form

    # -- threads: each belongs to an agent and one user, or to nobody in particular, and exists for nobody else

    def checkpointer(self, identity: Identity | None = None) -> ThreadSaver:
        """A checkpointer for any graph, over this service's own pool; its threads are erased with their person.

        Args:
            identity: whose threads it keeps; None: those of whoever each run is for, by its config (`thread`) or its
                context. Only a checkpointer with an identity can list everything, copy, delete and prune.

        Raises:
            InvalidInputError, MissingIdentityError: an identity that cannot be used.
        """
        whose = None if identity is None else ThreadOwner.of(to_identity(identity))
        return ThreadSaver(self.resources.database, whose)

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
        source: BaseCheckpointSaver[Any],
        identity: AnyIdentity,
        thread_ids: Annotated[Sequence[str], Field(min_length=1, max_length=MAX_LISTED)] | None = None,
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


def _conversation(state: Mapping[str, Any], key: str) -> Any:
    if key not in state:
        raise InvalidInputError("the graph's state has no such channel: messages_key names the one with the messages")
    return state[key]
