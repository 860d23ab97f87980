"""How long a text is for a model, without a tokenizer: the database computes the same from the number of characters."""

from collections.abc import Mapping
from typing import Final

from mnemic.state.records import Role

#: English text has about four characters a token; the estimate needs to be the same everywhere more than exact.
CHARS_PER_TOKEN = 4
#: What a role's words count towards the next formation (seed D): users say what is worth remembering, agents repeat.
ROLE_WEIGHTS: Final[Mapping[Role, float]] = {"user": 1.0, "tool": 0.5, "assistant": 0.2, "other": 0.5}


def count_tokens(text: str) -> int:
    """Estimated tokens of a text: its characters divided by four, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def weighted_tokens(role: Role, text: str) -> float:
    """Estimated tokens of a message, weighted by who speaks."""
    return ROLE_WEIGHTS[role] * count_tokens(text)
