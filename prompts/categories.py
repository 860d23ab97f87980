"""The categories a formed memory may have (seed B 5)."""

from typing import Literal, get_args

Category = Literal[
    "profile",
    "preferences",
    "relationships",
    "goals",
    "tasks",
    "projects",
    "event",
    "activity",
    "interests",
    "knowledge",
    "constraints",
    "tone",
    "style",
]

CATEGORIES: tuple[Category, ...] = get_args(Category)
