"""Recall, observing and forming as nodes of a host's own graph, whose state is a `MemoryState` with messages in it."""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from langgraph.runtime import Runtime

from mnemic.operations.messages.turn import Asked, observe_turn, recall_turn
from mnemic.operations.run.identity import identity_of
from mnemic.state.errors import InvalidInputError
from mnemic.state.host import MemoryState

if TYPE_CHECKING:
    from mnemic.service.memory import Mnemic


class HostNode(Protocol):
    """A node for any host's graph, whatever its state and its context are."""

    def __call__(self, state: Any, runtime: Runtime[Any]) -> Awaitable[Any]: ...


def recall_node(memory: "Mnemic", asked: Asked, messages_key: str) -> HostNode:
    """A node that leaves what memory says to this turn in `memory_context`."""

    async def recall(state: Any, runtime: Runtime[Any]) -> MemoryState:
        own = identity_of(runtime)
        identity = asked.identity(own)
        recalled = await recall_turn(memory, identity, _conversation(state, messages_key), asked)
        if identity.role != own.role:
            del recalled["memory_revision"]  # the host observes in its own role, which was told of nothing here
        return recalled

    return recall


def observe_node(memory: "Mnemic", messages_key: str, *, several_speakers: bool) -> HostNode:
    """A node that stores the turn's messages, once each."""

    async def observe(state: Any, runtime: Runtime[Any]) -> None:
        revision, messages = state.get("memory_revision"), _conversation(state, messages_key)
        identity = identity_of(runtime)
        await observe_turn(memory, identity, messages, revision=revision, several_speakers=several_speakers)

    return observe


def formation_node(memory: "Mnemic") -> HostNode:
    """A node that has formed what is due, once the turn is over."""

    async def form(state: Any, runtime: Runtime[Any]) -> None:
        await memory.form_later(identity_of(runtime))

    return form


def _conversation(state: Mapping[str, Any], key: str) -> Any:
    if key not in state:
        raise InvalidInputError("the graph's state has no such channel: messages_key names the one with the messages")
    return state[key]
