"""Recall for a turn of an agent, by a host's middleware and nodes and by the supervisor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.pregel import Pregel

from mnemic.operations.messages.incoming_message import HostMessage, IncomingMessage
from mnemic.operations.messages.normalize import require_list
from mnemic.operations.run.graph import run_graph
from mnemic.state.graphs import RecallOutput, SearchMode
from mnemic.state.identity import Identity
from mnemic.state.supervisor import MemoryState

RecallGraph = Pregel[Any, Identity, Any, Any]

_USER = frozenset({"user", "human"})


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """How a host recalls, turn after turn."""

    #: Whose allowlist holds; None: that of the identity's own role.
    role: str | None = None
    search: SearchMode = "auto"
    #: Tokens that the retrieved lines may take; None: the setting.
    budget_tokens: int | None = None

    def in_role(self, identity: Identity) -> Identity:
        """The run's identity in this role."""
        return identity.model_copy(update={"role": self.role}) if self.role else identity


async def recall(graph: RecallGraph, identity: Identity, question: str, options: RecallOptions) -> RecallOutput:
    """One run of the recall graph."""
    given = {"question": question, "search": options.search, "budget_tokens": options.budget_tokens}
    recalled: RecallOutput = await run_graph(graph, given, options.in_role(identity))
    return recalled


async def recall_turn(
    graph: RecallGraph, identity: Identity, messages: Sequence[HostMessage], options: RecallOptions | None = None
) -> MemoryState:
    """What memory says to the turn that answers the last message of a user.

    Raises:
        InvalidInputError: no list of messages, or the last one cannot be used.
    """
    recalled = await recall(graph, identity, last_question(messages), options or RecallOptions())
    return {
        "memory_context": recalled["context"],
        "memory_revision": recalled["revision"],
        "memory_searched": recalled["searched"],
    }


def last_question(messages: Sequence[HostMessage]) -> str:
    """The text of the last message of a user; empty where there is none."""
    require_list(messages)
    return next((text for message in reversed(messages) if (text := user_text(message)) is not None), "")


def user_text(message: HostMessage) -> str | None:
    """What a user says in a message; None where somebody else speaks."""
    if isinstance(message, BaseMessage):  # its role and its content alone: a name is of no use to a recall
        message = {"role": getattr(message, "type", "other"), "content": getattr(message, "content", None)}
    incoming = IncomingMessage.of(message)
    return incoming.text if incoming.role in _USER else None
