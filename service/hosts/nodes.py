"""Memory as nodes of a host's own graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.runtime import Runtime

from mnemic.memory.messages.incoming import require_speaker
from mnemic.memory.messages.turn import RecallOptions, form_later, observe_turn, recall_turn
from mnemic.memory.runtime.graph import as_node
from mnemic.memory.runtime.identity import identity_of
from mnemic.memory.runtime.resources import Provider, Resources
from mnemic.state.checking import check_arguments, quoted
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import SearchMode
from mnemic.state.identity import HostId
from mnemic.state.query import BudgetTokens
from mnemic.state.supervisor import MemoryState

#: LangGraph's function that reads a channel, as its `ToolNode` gets it; it drops writes to a channel that is missing.
_READ: Final = "__pregel_read"


@dataclass(frozen=True, repr=False, eq=False)
class HostNodes:
    """Nodes for a host's own graph; each takes the identity from the context of the run.

    A node raises `MissingIdentityError` if a message of a user belongs to no user.
    """

    _resources: Resources

    @property
    def _provide(self) -> Provider:
        return Provider.of(self._resources)

    @check_arguments
    def recall(
        self,
        *,
        role: HostId | None = None,
        search: SearchMode = "auto",
        budget_tokens: BudgetTokens | None = None,
        messages_key: str = "messages",
    ) -> Runnable[Any, Any]:
        """Return a node that writes the memory context of this turn into a `MemoryState`. It only reads the database.

        Args:
            role: the role whose allowlist applies; None for the identity's role.
            search: as in `Mnemic.recall`.
            budget_tokens: as in `Mnemic.recall`.
            messages_key: the channel that holds the conversation.

        Raises:
            InvalidInputError: if an argument cannot be used; by the node, if the graph's state lacks the channels of a
                `MemoryState`.
        """
        options = RecallOptions(role=role, search=search, budget_tokens=budget_tokens)

        async def recall(state: Any, runtime: Runtime[Any]) -> MemoryState:
            _require_channel(get_config())
            identity = identity_of(runtime)
            messages = _conversation(state, messages_key)
            # the observe node decides whether a message may name its speaker
            require_speaker(messages, identity, several_speakers=True)
            recalled = await recall_turn(self._resources, identity, messages, options)
            if options.in_role(identity).role != identity.role:
                # the host observes in its own role, to which nothing was announced
                del recalled["memory_revision"]
            return recalled

        return as_node(self._provide, recall)

    @check_arguments
    def observe(self, *, messages_key: str = "messages", several_speakers: bool = False) -> Runnable[Any, Any]:
        """Return a node that stores the conversation for formation, each message once. It waits for no model.

        Place it at the end of a turn, and also right after START if a node between may remove messages or fail.

        Args:
            messages_key: the channel that holds the conversation.
            several_speakers: as in `Mnemic.observe`.

        Raises:
            InvalidInputError: if an argument cannot be used.
        """

        async def observe(state: Any, runtime: Runtime[Any]) -> None:
            identity = identity_of(runtime)
            messages = _conversation(state, messages_key)
            require_speaker(messages, identity, several_speakers=several_speakers)
            revision = state.get("memory_revision")
            await observe_turn(
                self._resources, identity, messages, revision=revision, several_speakers=several_speakers
            )

        return as_node(self._provide, observe)

    def form(self) -> Runnable[Any, Any]:
        """Return a node that starts the formation of due messages, as `form_later` does. It waits for no model."""

        async def form(state: Any, runtime: Runtime[Any]) -> None:
            form_later(self._resources, identity_of(runtime))

        return as_node(self._provide, form)


def _conversation(state: Mapping[str, Any], key: str) -> Any:
    if key not in state:
        raise InvalidInputError(
            f"the graph's state has no channel {quoted(key)}: set messages_key to the one that holds the messages"
        )
    return state[key]


def _require_channel(config: RunnableConfig) -> None:
    """Refuse a graph without the channel of the memory context, which would lose it without an error."""
    read = config.get("configurable", {}).get(_READ)
    try:
        if read:
            read("memory_context")
    except KeyError:
        raise InvalidInputError(
            "the graph's state has no channel memory_context, so the recalled context would be lost: let the state "
            "inherit MemoryState, as in `class Turn(MessagesState, MemoryState)`"
        ) from None
