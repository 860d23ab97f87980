"""The command `usage`: tokens and their costs; and the line with the usage of a command."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any, Final

import typer

from mnemic.models.prices import total_cost
from mnemic.service.cli.options import Agent, AsJson, open_memory
from mnemic.service.cli.terminal import report, say, table
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import DailyUsage, RunUsage
from mnemic.state.results import FormationResult

_KEYS: Final = ("day", "step", "tier", "model")
Day = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])]

_TITLES = ("calls", "tokens in", "cached", "tokens out", "USD")


async def usage(
    agent: Agent,
    since: Day = None,
    before: Day = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help=f"Group by {', '.join(_KEYS)}; repeatable. Default: day and step."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens of an agent, and their costs by MNEMIC_MODEL_PRICES."""
    keys = list(dict.fromkeys(by or ("day", "step")))
    if not set(keys) <= set(_KEYS):
        raise InvalidInputError(f"--by is one of {', '.join(_KEYS)}")
    async with open_memory() as memory:
        who = Identity(agent_id=agent)
        days = [day.date() if day else None for day in (since, before)]
        found = await memory.usage.tokens(who, since=days[0], before=days[1])
    report(found, table(_rows(found, keys), *keys, *_TITLES), as_json=as_json, nothing="no model was used")
    if unpriced := sorted({used.model for used in found if used.cost is None}):
        say(f"without a price in MNEMIC_MODEL_PRICES: {', '.join(unpriced)}")


def _rows(found: Iterable[DailyUsage], keys: Sequence[str]) -> Iterator[Sequence[object]]:
    def place(used: DailyUsage) -> tuple[Any, ...]:
        return tuple(str(getattr(used, key)) for key in keys)

    every = sorted(found, key=place)
    for group, rows in groupby(every, key=place):
        yield (*group, *_sums([*rows]))
    if every:
        yield ("all", *[""] * (len(keys) - 1), *_sums(every))


def _sums(rows: Sequence[DailyUsage]) -> Iterator[str]:
    for name in ("calls", "input_tokens", "cached_tokens", "output_tokens"):
        yield f"{sum(getattr(row, name) for row in rows):,}"
    yield _money(total_cost(row.cost for row in rows))


def _money(cost: float | None) -> str:
    if cost is None:
        return "?"
    return f"{cost:.4f}"


def spent_line(spent: Sequence[RunUsage]) -> list[str]:
    """Return a line such as `models: 4,120 tokens in, 310 out, 0.0017 USD`, or nothing without a call."""
    if not spent:
        return []
    tokens_in, tokens_out = (sum(getattr(one, name) for one in spent) for name in ("input_tokens", "output_tokens"))
    cost = total_cost(one.cost for one in spent)
    return [f"models: {tokens_in:,} tokens in, {tokens_out:,} out" + ("" if cost is None else f", {cost:.4f} USD")]


def spent_by(runs: Iterable[FormationResult]) -> list[RunUsage]:
    """What formations used, their consolidations included."""
    parts = [(run.spent, *(result.spent for result in run.consolidations)) for run in runs]
    return [one for part in parts for listed in part for one in listed]
