"""How long a text is for a model, without a tokenizer, and what fits into a budget.

The database computes the same length from the number of characters.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from mnemic.state.kinds import Role

Item = TypeVar("Item")

#: English text has about four characters a token; the estimate needs to be the same everywhere more than exact.
CHARS_PER_TOKEN = 4
#: What a role's words count towards the next formation: users say what is worth remembering, agents repeat.
ROLE_WEIGHTS: Final[Mapping[Role, float]] = {"user": 1.0, "tool": 0.5, "assistant": 0.2, "other": 0.5}


def count_tokens(text: str) -> int:
    """Estimated tokens of a text: its characters divided by four, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def weighted_tokens(role: Role, text: str) -> float:
    """Estimated tokens of a message, weighted by who speaks."""
    return ROLE_WEIGHTS[role] * count_tokens(text)


def fit(items: Sequence[Item], *, tokens: Callable[[Item], int], budget: int) -> list[Item]:
    """The items that fit, in rank order: one that is too long is passed over, and smaller ones may still follow."""
    chosen: list[Item] = []
    left = budget
    for item in items:
        size = tokens(item)
        if size <= left:
            chosen.append(item)
            left -= size
    return chosen
