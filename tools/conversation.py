"""What was said before a tool was called, for the gate that a model's word on a wide scope has to pass."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from mnemic.operations.messages.incoming_message import IncomingMessage
from mnemic.operations.messages.normalize import INSTRUCTIONS, to_messages
from mnemic.policy.formation.orders import gives_orders
from mnemic.state.explicit import ExplicitScope
from mnemic.state.identity import Identity
from mnemic.state.records import Message

#: The role whose users are people; another one's "user" is the model that gave it its task.
_TALKS_WITH_USERS = "supervisor"


async def said_to(identity: Identity, scope: ExplicitScope, messages: Sequence[Any]) -> list[Message]:
    """The messages of the host's state that count for the gate; none, where nothing is to be shared.

    None either without a session they could be of, in a role that people do not talk with, or where anything that the
    model has read orders the memory about, recalled memories and what looks like them included.
    """
    if scope == "user" or identity.session_id is None or identity.role != _TALKS_WITH_USERS:
        return []
    return await asyncio.to_thread(_unless_ordered, identity, messages)


def _unless_ordered(identity: Identity, messages: Sequence[Any]) -> list[Message]:
    # that a user said it is what counts, not which: nothing becomes anybody's own here
    said = to_messages(messages, identity, now=datetime.now(UTC), several_speakers=True)
    spoken = [message.text for message in map(IncomingMessage.of, messages) if message.role not in INSTRUCTIONS]
    return [] if any(map(gives_orders, spoken)) else said
