"""Memory in a host's own agent or graph, as methods of `Mnemic`: tools, middleware, nodes."""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from mnemic.operations.formation.form import form_later
from mnemic.operations.run.identity import identity_of
from mnemic.operations.turn import RecallOptions, observe_turn, recall_turn
from mnemic.service.base import MemoryBase
from mnemic.state.checking import check_arguments
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import SearchMode
from mnemic.state.host import MemoryState
from mnemic.state.identity import HostId
from mnemic.state.query import BudgetTokens
from mnemic.tools import make_tools

if TYPE_CHECKING:
    from mnemic.service.hosts.middleware import MemoryMiddleware


class HostNode(Protocol):
    """A node for any host's graph, whatever its state and its context are."""

    def __call__(self, state: Any, runtime: Runtime[Any]) -> Awaitable[Any]: ...


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
        categories = self.resources.categories
        allowed, writable = categories.of_role(role).categories, categories.writable(role)
        loop = self.resources.database.loop
        return make_tools(self._provide, role, allowed=allowed, writable=writable, loop=loop)

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
    ) -> "MemoryMiddleware":
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
        from mnemic.service.hosts.middleware import (  # here, for it brings all of langchain
            MemoryMiddleware,
            TurnOptions,
        )

        recall = RecallOptions(role=role, search=search, budget_tokens=budget_tokens)
        options = TurnOptions(recall=recall, observe=observe, form=form, several_speakers=several_speakers)
        return MemoryMiddleware(self, self.tools(role), options)

    @check_arguments
    def recall_node(
        self,
        *,
        role: HostId | None = None,
        search: SearchMode = "auto",
        budget_tokens: BudgetTokens | None = None,
        messages_key: str = "messages",
    ) -> HostNode:
        """A node for a graph whose state is a `MemoryState`: leaves what memory says to this turn in it.

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
            identity = identity_of(runtime)
            recalled = await recall_turn(self.graphs.recall, identity, _conversation(state, messages_key), options)
            if options.in_role(identity).role != identity.role:
                del recalled["memory_revision"]  # the host observes in its own role, which was told of nothing here
            return recalled

        return recall

    @check_arguments
    def observe_node(self, *, messages_key: str = "messages", several_speakers: bool = False) -> HostNode:
        """A node that stores the conversation for formation, each message once; it waits for no model.

        Args:
            messages_key: the channel that holds the conversation.
            several_speakers: as in `observe`.

        Raises:
            InvalidInputError: an argument cannot be used.
        """

        async def observe(state: Any, runtime: Runtime[Any]) -> None:
            revision, messages = state.get("memory_revision"), _conversation(state, messages_key)
            identity = identity_of(runtime)
            await observe_turn(self.resources, identity, messages, revision=revision, several_speakers=several_speakers)

        return observe

    def formation_node(self) -> HostNode:
        """A node that has formed what is due, as `form_later` does: the turn waits for no model."""

        async def form(state: Any, runtime: Runtime[Any]) -> None:
            form_later(self.resources, self.graphs.formation, identity_of(runtime))

        return form


def _conversation(state: Mapping[str, Any], key: str) -> Any:
    if key not in state:
        raise InvalidInputError("the graph's state has no such channel: messages_key names the one with the messages")
    return state[key]
