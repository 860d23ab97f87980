"""What was said before a tool was called, for the gate that a model's word on a wide scope has to pass."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from mnemic.nodes.incoming import to_messages
from mnemic.state.explicit import ExplicitScope
from mnemic.state.identity import Identity
from mnemic.state.records import Message


def said_to(identity: Identity, scope: ExplicitScope, messages: Sequence[Any]) -> list[Message]:
    """The messages of the host's state; none where nothing is to be shared, or without a session they could be of."""
    if scope == "user" or identity.session_id is None:
        return []
    return to_messages(messages, identity, now=datetime.now(UTC))
