"""Turns: what per-turn formation takes at a time, and how much it looks for in it."""

from collections.abc import Sequence
from itertools import pairwise

from mnemic.state.kinds import FormationReason
from mnemic.state.records import Message
from mnemic.state.settings import Settings


def first_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """The oldest turn: what came before a user's words, these words, and what follows until a user speaks again."""
    users = [False, *(message.role == "user" for message in messages)]
    starts = [place for place, (before, now) in enumerate(pairwise(users)) if now and not before]
    return messages[: starts[1]] if len(starts) > 1 else messages


def turn_reason(messages: Sequence[Message], *, more: bool, forced: bool) -> FormationReason | None:
    """Why the oldest turn is due, or None while it waits for a user's words.

    Args:
        messages: The turn, as far as it was read.
        more: Further messages are pending behind it, so that waiting would bring nothing.
        forced: The caller wants what is pending formed now; then one message is enough.
    """
    if forced and messages:
        return "forced"
    return "turn" if more or any(message.role == "user" for message in messages) else None


def facts_of_turn(messages: Sequence[Message], settings: Settings) -> int:
    """How many facts a turn may bring: one, or several where its user said much."""
    said = sum(len(message.content) for message in messages if message.role == "user")
    return settings.multi_fact_candidates if said > settings.multi_fact_chars else 1
