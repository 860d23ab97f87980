"""Forms the example conversations and prints expected facts against found, wrong and missed.

python -m benchmarks.corpus [--missed] [--found]
"""

import argparse
import asyncio

from rich.console import Console
from rich.table import Table

from benchmarks.corpus import candidates
from benchmarks.corpus.everyday import summary
from benchmarks.corpus.forming import form_corpus
from benchmarks.corpus.report import Report, make_report
from mnemic.service.memory import Mnemic


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missed", action="store_true", help="list the expected facts that were not found")
    parser.add_argument("--found", action="store_true", help="list every formed memory beside the fact it counts as")
    arguments = parser.parse_args()
    report, described, shown = asyncio.run(_measure())
    console = Console(width=160)
    console.print(described, highlight=False)
    console.print(_table(report))
    listings = _listings(report, missed=arguments.missed, found=arguments.found)
    for title, lines in [*listings, ("What a decision is shown", candidates.summary(shown))]:
        console.print(f"\n[bold]{title}[/bold]")
        for line in lines:
            console.print(line, markup=False, highlight=False)


async def _measure() -> tuple[Report, str, list[candidates.Shown]]:
    formed = await form_corpus()
    async with Mnemic.open() as memory:
        shown = await candidates.measure(memory.resources)
    return make_report(formed), formed.described, shown


def _table(report: Report) -> Table:
    table = Table("", "expected", "found", "in another scope", "missed", title="Facts of the example conversations")
    for row in report.rows:
        table.add_row(
            row.kind, str(row.expected), f"{row.found} ({row.found_share:.0%})", str(row.elsewhere), str(row.missed)
        )
    return table


def _listings(report: Report, *, missed: bool, found: bool) -> list[tuple[str, list[str]]]:
    listings = [
        ("Summary", report.summary()),
        ("Wrong: formed, and on no list or on the list of traps", report.wrong_lines()),
        ("Facts that changed", report.change_lines()),
        ("Everyday conversations, by the offline rules", summary(missed=missed)),
    ]
    if missed:
        listings.append(("Missed", report.missed_lines()))
    if found:
        listings.append(("Found", report.found_lines()))
    return listings


if __name__ == "__main__":
    main()
