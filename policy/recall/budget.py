"""Fits ranked items into a number of tokens."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fit(items: Sequence[T], *, tokens: Callable[[T], int], budget: int) -> list[T]:
    """The items that fit, in rank order: one that is too long is passed over, and smaller ones may still follow."""
    chosen: list[T] = []
    left = budget
    for item in items:
        size = tokens(item)
        if size <= left:
            chosen.append(item)
            left -= size
    return chosen
