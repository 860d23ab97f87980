"""A whole matrix for `make test-all`, a few cases of it for `make test`."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def mostly_thorough(cases: Mapping[str, Any] | Iterable[str], *few: str) -> list[Any]:
    """Parameters of every case by its name: all but these few are thorough."""
    values = dict(cases) if isinstance(cases, Mapping) else {name: name for name in cases}
    assert {*few} <= values.keys()
    return [
        pytest.param(value, id=name, marks=() if name in few else pytest.mark.thorough)
        for name, value in values.items()
    ]


def few_first(cases: Iterable[Any], few: int = 2) -> list[Any]:
    """All cases but the first few are thorough; a tuple is a case of several parameters."""
    return [
        case
        if place < few
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough)
        for place, case in enumerate(cases)
    ]
