"""Regular expressions that are compiled when first used."""

import re
from collections.abc import Callable
from functools import cache, partial


def pattern(expression: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Gives the pattern when called: for large ones, 20 ms together, which importing the graphs need not take."""
    return cache(partial(re.compile, expression, flags))
