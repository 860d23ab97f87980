"""The commands `stats`, with counts over time, and `metrics`, for Prometheus."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

import typer
from rich.console import RenderableType

from mnemic.service.cli.options import AsJson, open_memory
from mnemic.service.cli.terminal import plain, report, table, verbatim
from mnemic.service.metrics import metrics_text
from mnemic.state.errors import InvalidInputError
from mnemic.state.events import ContextSize, Count, Measure, Stats
from mnemic.state.identity import Identity

_LEVELS: Final = "▁▂▃▄▅▆▇█"
#: Cells of a full bar.
_BAR_WIDTH: Final = 30
#: Maximum number of days of the picture, a cell each.
_MAX_DAYS: Final = 60
_PICTURED: Final[tuple[Measure, ...]] = ("memories", "messages", "tokens")


async def stats(
    agent: Annotated[str | None, typer.Option("--agent", help="Counts of this agent.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Counts of all agents of this tenant.")] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=3650, help="Days up to today (UTC).")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show memories, messages and tokens per day, context memories, and operations of an agent or a tenant."""
    if (agent is None) == (tenant is None):
        raise InvalidInputError("use either --agent or --tenant")
    today = datetime.now(UTC).date()
    since = today - timedelta(days=days - 1)
    async with open_memory() as memory:
        if tenant is not None:
            found = await memory.usage.tenant_stats(tenant, since=since)
        else:
            found = await memory.usage.stats(Identity(agent_id=agent or ""), since=since)
    shown = min(days, _MAX_DAYS)
    lines = _lines(found, [today - timedelta(days=back) for back in range(shown - 1, -1, -1)])
    report(found, lines, as_json=as_json)


async def metrics() -> None:
    """Print figures of the whole database for Prometheus, such as for a textfile collector."""
    async with open_memory() as memory:
        text = await metrics_text(memory.resources, with_process=False)
    report(text, [verbatim(text.rstrip("\n"))], as_json=False)


def _lines(found: Stats, days: Sequence[date]) -> Iterator[RenderableType]:
    rows = [_picture(found.counts, measure, days) for measure in _PICTURED]
    yield from table(rows, "per day", f"{days[0]} to {days[-1]}", "today", "in all")
    yield from table([_context_row(size, found) for size in found.context], "context", "", "largest", "scope keys")
    yield plain(_budget_line(found))
    yield from table(_event_rows(found.counts), "node", "op", "status", "times", "ms each")


def _picture(counts: Sequence[Count], measure: Measure, days: Sequence[date]) -> tuple[str, str, str, str]:
    """Return a line with a cell for each day, as high as its amount."""
    amounts = dict.fromkeys(days, 0)
    total = 0
    for count in counts:
        if count.measure == measure and count.day is not None:
            total += count.amount
            if count.day in amounts:
                amounts[count.day] += count.amount
    highest = max(amounts.values()) or 1
    cells = [_cell(amount, highest) for amount in amounts.values()]
    return measure, "".join(cells), f"{amounts[days[-1]]:,}", f"{total:,}"


def _cell(amount: int, highest: int) -> str:
    if not amount:
        return "."
    return _LEVELS[(amount * (len(_LEVELS) - 1)) // highest]


def _context_row(size: ContextSize, found: Stats) -> tuple[str, str, str, str]:
    share = size.largest_tokens / found.context_budget_tokens
    bar = "█" * min(_BAR_WIDTH, round(share * _BAR_WIDTH))
    keys = f"{size.scope_keys:,}"
    if size.over_budget:
        keys += f", {size.over_budget:,} over budget"
    return size.scope, bar.ljust(_BAR_WIDTH, "."), f"{size.largest_tokens:,} of {found.context_budget_tokens:,}", keys


def _budget_line(found: Stats) -> str:
    used = f"tokens of the tenant today: {found.tokens_today:,}"
    if found.tenant_daily_tokens is None:
        return used + "; no daily budget is set"
    return used + f" of {found.tenant_daily_tokens:,}"


def _event_rows(counts: Sequence[Count]) -> Iterator[Sequence[object]]:
    sums: dict[tuple[str, str, str], tuple[int, float]] = {}
    for count in counts:
        if count.measure == "events":
            key = (count.name or "", count.op or "", count.status or "")
            times, duration = sums.get(key, (0, 0.0))
            sums[key] = (times + count.amount, duration + (count.duration_ms or 0.0))
    for key, (times, duration) in sorted(sums.items()):
        yield (*key, f"{times:,}", f"{duration / times:,.1f}" if duration else "")


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (stats, metrics)
