"""What tokens cost, by the prices that the settings name: none are built in, for prices age."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import cast

from mnemic.state.graphs import Spent
from mnemic.state.kinds import Usage
from mnemic.state.model_settings import ModelPrice

_MILLION = 1_000_000


def cost_of(usage: Usage, prices: Mapping[str, ModelPrice]) -> float | None:
    """US dollars; None where the settings name no price for the model, or not all tokens were told."""
    price = prices.get(usage.model)
    if price is None or usage.untold:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    of_cached = price.input if price.cached is None else price.cached
    fresh = usage.input_tokens - cached
    return (fresh * price.input + cached * of_cached + usage.output_tokens * price.output) / _MILLION


def spent_on(usage: Usage, prices: Mapping[str, ModelPrice]) -> list[Spent]:
    """A step's calls as the result of a run lists them; nothing where no model was asked."""
    if not usage.calls:
        return []
    return [cast(Spent, {**asdict(usage), "cost": cost_of(usage, prices)})]


def total_cost(costs: Iterable[float | None]) -> float | None:
    """The sum; None where a price is missing."""
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)
