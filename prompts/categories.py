"""The categories a formed memory may have."""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

#: What the steps choose from where the caller names nothing else.
CATEGORIES: Final[tuple[str, ...]] = (
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
)


def offering(output: type[BaseModel], categories: Sequence[str]) -> dict[str, Any]:
    """An output's schema in which every `category` is one of these.

    The model is held to them by its provider; an answer that names another one all the same is no broken answer, for
    the rest of it can be used: see `policy.categories.Categories.stored_as`.
    """
    schema = deepcopy(_schema(output))
    for part in schema["$defs"].values():
        if category := part.get("properties", {}).get("category"):
            category["enum"] = list(categories)
    return schema


@cache
def _schema(output: type[BaseModel]) -> dict[str, Any]:
    return output.model_json_schema()  # 2 ms, a sixth of a formation's own work
