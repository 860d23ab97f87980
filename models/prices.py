"""Costs of tokens, by the prices in the settings: none are built in, since prices age."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import cast

from mnemic.state.graphs import StepUsage
from mnemic.state.kinds import Usage
from mnemic.state.model_settings import ModelPrice

_MILLION = 1_000_000


def cost_of(usage: Usage, prices: Mapping[str, ModelPrice]) -> float | None:
    """Return US dollars, or None without a price of the model, or if not all tokens were reported."""
    price = prices.get(usage.model)
    if price is None or usage.unreported_calls:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    fresh = usage.input_tokens - cached
    return (fresh * price.input + cached * cached_price + usage.output_tokens * price.output) / _MILLION


def spent_on(usage: Usage, prices: Mapping[str, ModelPrice]) -> list[StepUsage]:
    """Return a step's calls as the result of a run lists them; nothing without a call."""
    if not usage.calls:
        return []
    return [cast(StepUsage, {**asdict(usage), "cost": cost_of(usage, prices)})]


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Return the sum, or None if a cost is missing."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
