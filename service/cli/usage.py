"""The command `usage`: tokens and their costs; and the line with the usage of a command."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import Annotated, Final

import typer

from mnemic.models.answers import total_cost
from mnemic.service.cli.options import Agent, AsJson, open_memory
from mnemic.service.cli.terminal import report, say, table
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import DailyUsage, RunUsage
from mnemic.state.results import FormationResult

_KEYS: Final = ("day", "step", "tier", "model")
Since = Annotated[str | None, typer.Option(help="Only since this day (UTC).")]
Before = Annotated[str | None, typer.Option(help="Only before this day (UTC).")]

_TITLES = ("calls", "tokens in", "cached", "tokens out", "USD")


async def usage(
    agent: Agent,
    since: Since = None,
    before: Before = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help=f"Group by {', '.join(_KEYS)}; repeatable. Default: day and step."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens of an agent, and their costs by MNEMIC_MODEL_PRICES."""
    keys = list(dict.fromkeys(by or ("day", "step")))
    if not set(keys) <= set(_KEYS):
        raise InvalidInputError(f"--by must be one of {', '.join(_KEYS)}")
    async with open_memory() as memory:
        rows = await memory.usage.tokens(
            Identity(agent_id=agent), since=_date("--since", since), before=_date("--before", before)
        )
    report(rows, table(_table_rows(rows, keys), *keys, *_TITLES), as_json=as_json, nothing="no model was used")
    if unpriced := sorted({row.model for row in rows if row.cost is None}):
        say(f"without a price in MNEMIC_MODEL_PRICES: {', '.join(unpriced)}")


def _date(option: str, text: str | None) -> date | None:
    """Return a day; None without a text.

    Raises:
        InvalidInputError: if the text is no day.
    """
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{option} must be a day such as 2026-03-02") from None


def _table_rows(rows: Iterable[DailyUsage], keys: Sequence[str]) -> Iterator[Sequence[object]]:
    """Yield a row for each group of equal keys, and one for all."""

    def key_of(row: DailyUsage) -> tuple[str, ...]:
        return tuple(str(getattr(row, key)) for key in keys)

    ordered = sorted(rows, key=key_of)
    for key, group in groupby(ordered, key=key_of):
        yield (*key, *_sums(list(group)))
    if ordered:
        yield ("all", *[""] * (len(keys) - 1), *_sums(ordered))


def _sums(rows: Sequence[DailyUsage]) -> Iterator[str]:
    for name in ("calls", "input_tokens", "cached_tokens", "output_tokens"):
        yield f"{sum(getattr(row, name) for row in rows):,}"
    cost = total_cost(row.cost for row in rows)
    if cost is None:
        yield "?"
    else:
        yield f"{cost:.4f}"


def spent_line(spent: Sequence[RunUsage]) -> list[str]:
    """Return a line such as `models: 4,120 tokens in, 310 out, 0.0017 USD`, or nothing without a call."""
    if not spent:
        return []
    tokens_in = sum(usage.input_tokens for usage in spent)
    tokens_out = sum(usage.output_tokens for usage in spent)
    line = f"models: {tokens_in:,} tokens in, {tokens_out:,} out"
    cost = total_cost(usage.cost for usage in spent)
    if cost is not None:
        line += f", {cost:.4f} USD"
    return [line]


def spent_by(runs: Iterable[FormationResult]) -> list[RunUsage]:
    """Return the usage of formations and their consolidations."""
    spent: list[RunUsage] = []
    for run in runs:
        spent.extend(run.spent)
        for result in run.consolidations:
            spent.extend(result.spent)
    return spent


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (usage,)
