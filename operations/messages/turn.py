"""What is done around each turn of an agent, by a host's middleware and nodes and by the supervisor."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from langchain_core.messages import BaseMessage
from pydantic import Field

from mnemic.operations.messages.incoming_message import HostMessage, Said
from mnemic.operations.messages.normalize import require_list, storable
from mnemic.operations.messages.speakers import session_of
from mnemic.state.errors import InvalidInputError, MnemicError
from mnemic.state.graphs import RecallOutput, SearchMode
from mnemic.state.host import MemoryState
from mnemic.state.identity import HostId, Identity
from mnemic.state.query import MAX_BUDGET_TOKENS

_LOG = logging.getLogger("mnemic")
_USER = frozenset({"user", "human"})


class TurnMemory(Protocol):
    """What remembers: `Mnemic`, or what a graph of a server makes of its resources."""

    async def context(
        self,
        identity: Identity,
        question: str = "",
        *,
        search: SearchMode = "auto",
        budget_tokens: int | None = None,
    ) -> RecallOutput:
        """What belongs into the prompt."""
        ...

    async def observe(
        self,
        identity: Identity,
        messages: Sequence[HostMessage],
        *,
        revision: int | None = None,
        several_speakers: bool = False,
    ) -> Any:
        """Stores messages for formation."""
        ...


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How a host's recalls are asked, turn after turn."""

    #: Whose allowlist holds; None: that of the identity's own role.
    role: HostId | None = None
    search: SearchMode = "auto"
    #: Tokens the retrieved lines may take; None: the setting.
    budget_tokens: Annotated[int, Field(ge=1, le=MAX_BUDGET_TOKENS, strict=True)] | None = None

    def identity(self, identity: Identity) -> Identity:
        """The run's identity in the role that asks."""
        return identity.model_copy(update={"role": self.role}) if self.role else identity


async def recall_turn(
    memory: TurnMemory, identity: Identity, messages: Sequence[HostMessage], asked: Asked
) -> MemoryState:
    """What memory says to the turn that answers the last message of a user."""
    recalled = await memory.context(
        identity, last_question(messages), search=asked.search, budget_tokens=asked.budget_tokens
    )
    return {
        "memory_context": recalled["context"],
        "memory_revision": recalled["revision"],
        "memory_searched": recalled["searched"],
    }


async def observe_turn(
    memory: TurnMemory,
    identity: Identity,
    messages: Sequence[HostMessage],
    *,
    revision: int | None,
    several_speakers: bool = False,
) -> None:
    """Stores the turn's messages for formation, and that the changes up to `revision` were announced.

    The answer is there already, so a failure costs a warning and nothing else: hosts resend the whole list, and the
    next turn brings what was missed. What cannot be stored is left out, for it stands in the list for good.

    Raises:
        InvalidInputError: the identity has no session.
    """
    session_of(identity)
    try:
        await _observe(memory, identity, messages, revision, several_speakers=several_speakers)
    except InvalidInputError as error:
        _LOG.warning("the messages of this turn cannot be stored: %s", error)
    except MnemicError as error:
        _LOG.warning("the messages of this turn were not stored; they will be, when they come again: %s", error)


async def _observe(
    memory: TurnMemory,
    identity: Identity,
    messages: Sequence[HostMessage],
    revision: int | None,
    *,
    several_speakers: bool,
) -> None:
    try:
        await memory.observe(identity, messages, revision=revision, several_speakers=several_speakers)
    except InvalidInputError as error:
        fit = await asyncio.to_thread(storable, messages, identity, several_speakers=several_speakers)
        if len(fit) < len(messages) and any(map(_asked, fit)):  # answers alone tell nothing
            left_out = len(messages) - len(fit)
            _LOG.warning("messages that cannot be stored are left out: %d, such as %s", left_out, error)
            await _observe(memory, identity, fit, revision, several_speakers=several_speakers)
        elif revision is None:
            raise
        else:  # such as that of a thread whose database was set back; the messages are not to be lost with it
            await memory.observe(identity, messages, several_speakers=several_speakers)


def last_question(messages: Sequence[HostMessage]) -> str:
    """The words of the last message of a user; empty where there is none.

    Raises:
        InvalidInputError: no list of messages.
    """
    require_list(messages)
    return next((words for message in reversed(messages) if (words := _asked(message)) is not None), "")


def _asked(message: HostMessage) -> str | None:
    if isinstance(message, BaseMessage):  # its role and its words alone: a name is of no use to a recall
        message = {"role": getattr(message, "type", "other"), "content": getattr(message, "content", None)}
    said = Said.of(message)
    return said.text if said.role in _USER else None
