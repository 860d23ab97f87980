"""When pending messages are formed into memories, in what order of time, and how much one run may form."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from math import ceil
from typing import Final

from mnemic.memory.text.shape import count_tokens
from mnemic.memory.text.words import sentences
from mnemic.state.formation import Inbox
from mnemic.state.kinds import FormationReason, Role
from mnemic.state.records import Message
from mnemic.state.settings import Settings

#: What a role's words count towards the next formation: users say what is worth remembering, agents repeat.
ROLE_WEIGHTS: Final[Mapping[Role, float]] = {
    "user": 1.0,
    "tool": 0.5,
    "assistant": 0.2,
    "other": 0.5,
    "attachment": 0.2,
}
#: Facts that a few messages may bring, one for each sentence or line; and characters for each fact in longer texts.
#: The example conversations have 70 to 110 characters for each message of a user, and are bounded by their messages.
_FACTS_BY_LINE, _CHARS_OF_A_FACT = 24, 100


def weighted_tokens(role: Role, text: str) -> float:
    """Estimated tokens of a message, weighted by who speaks."""
    return ROLE_WEIGHTS[role] * count_tokens(text)


def formation_reason(
    inbox: Inbox, *, messages: int, tokens: float, forced: bool, settings: Settings
) -> FormationReason | None:
    """Return why pending messages of a session are due, or None while they wait.

    A cold session of enough messages is formed to its end, however few of them are pending: no later message is
    expected that would form them.

    Args:
        inbox: size of the session, and the time since its last message.
        messages: number of messages that this run may form.
        tokens: their weighted tokens.
        forced: the caller wants pending messages formed now; then one message is enough.
        settings: of the agent; every threshold fires when it is reached.
    """
    if messages == 0:
        return None
    if forced:
        return "forced"
    if messages >= settings.formation_min_messages:
        if messages >= settings.formation_messages:
            return "messages"
        if tokens >= settings.formation_tokens:
            return "tokens"
    is_cold = inbox.idle >= timedelta(minutes=settings.session_cold_minutes)
    if is_cold and inbox.session_messages >= settings.formation_min_messages:
        return "cold"
    return None


def facts_of_batch(messages: Sequence[Message], settings: Settings) -> int:
    """Return how many facts a batch may bring, at most the cap of a run.

    That is a share of its messages, rounded up. It is more if messages of several sentences or lines say much: a fact
    for each of these, and beyond some of them for each hundred characters.
    """
    by_number = ceil(len(messages) * settings.facts_per_ten_messages / 10)
    said = [message.typed_text for message in messages]
    parts = sum(len(sentences(line)) for text in said for line in text.splitlines())
    if parts <= len(messages):
        return min(settings.facts_per_run, by_number)
    by_length = max(min(parts, _FACTS_BY_LINE), sum(map(len, said)) // _CHARS_OF_A_FACT)
    return min(settings.facts_per_run, max(by_number, by_length))


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
    length = sum(len(message.typed_text) for message in messages)
    return settings.multi_fact_candidates if length > settings.multi_fact_chars else 1
