"""When pending messages are formed into memories, and how much one run may form."""

from collections.abc import Sequence
from datetime import timedelta
from math import ceil

from mnemic.state.kinds import FormationReason
from mnemic.state.records import Message
from mnemic.state.settings import Settings


def formation_reason(
    *, messages: int, tokens: float, idle: timedelta, forced: bool, settings: Settings
) -> FormationReason | None:
    """Why the pending messages of a session are due, or None while they wait.

    Args:
        messages: How many are pending.
        tokens: Their weighted tokens.
        idle: Time since the session's last message.
        forced: The caller wants what is pending formed now; then one message is enough.
        settings: The agent's settings; every threshold fires when it is reached.
    """
    if forced and messages > 0:
        return "forced"
    if messages < settings.formation_min_messages:
        return None
    if messages >= settings.formation_messages:
        return "messages"
    if tokens >= settings.formation_tokens:
        return "tokens"
    if idle >= timedelta(minutes=settings.session_cold_minutes):
        return "cold"
    return None


def facts_of_batch(messages: Sequence[Message], settings: Settings) -> int:
    """How many facts a batch may bring: a share of its messages, rounded up, below the cap of a run."""
    return min(settings.facts_per_run, ceil(len(messages) * settings.facts_per_ten_messages / 10))
