"""How often a conversation's turns would have been searched for without being asked to."""

from collections import Counter
from collections.abc import Iterable, Sequence

from benchmarks.corpus.forming import sessions
from benchmarks.recall_quality.locomo import Conversation
from mnemic.memory.recall.heuristics import search_reason
from mnemic.memory.runtime.requests import load_requests


def of_dialogues(conversations: Sequence[Conversation]) -> Counter[str]:
    """Reasons to search, `none` among them, where the first speaker of each dialogue is the user."""
    return _reasons(
        turn.text
        for conversation in conversations
        for turn in conversation.turns
        if turn.speaker == conversation.turns[0].speaker
    )


def of_examples() -> Counter[str]:
    """Return the same for the users' messages in the example conversations."""
    return _reasons(row["content"] for rows in sessions() for row in rows if row["role"] == "user")


def _reasons(messages: Iterable[str]) -> Counter[str]:
    """Count the reasons without a memory, so that no word is known."""
    requests = load_requests()
    return Counter(search_reason(message, requests=requests) or "none" for message in messages)


def described(reasons: Counter[str]) -> str:
    """Return the share of turns with a search, and the reasons."""
    turns, kept = sum(reasons.values()), reasons["none"]
    why = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common() if reason != "none")
    return f"{turns - kept} of {turns} turns ({(turns - kept) / max(1, turns):.1%}): {why or 'no reason found'}"
