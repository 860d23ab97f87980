"""Forms the example conversations and prints expected facts against found, wrong and missed.

python -m benchmarks.corpus [--missed] [--found]             by the settings' models
python -m benchmarks.corpus --recorded [--list FILE]         by a careful reader's recorded answers
python -m benchmarks.corpus --recorded --weak                by a weak reader made of them
python -m benchmarks.corpus --record-from http://HOST/v1     asks there for what is not in the record, and records it
"""

import argparse
import asyncio
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.corpus import candidates, judging
from benchmarks.corpus.everyday import summary
from benchmarks.corpus.forming import form_corpus
from benchmarks.corpus.recording import add_record_arguments, chosen, record_of
from benchmarks.corpus.report import Report, make_report
from benchmarks.corpus.weak import Weak
from mnemic.models.replay import Replay, read_record
from mnemic.service.memory import Mnemic


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missed", action="store_true", help="list the expected facts that were not found")
    parser.add_argument("--found", action="store_true", help="list every formed memory beside the fact it counts as")
    parser.add_argument("--weak", action="store_true", help="skip half of the recorded answers, and spoil the rest")
    parser.add_argument("--list", type=Path, metavar="FILE", help="write all lists there, to be read by hand")
    add_record_arguments(parser)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        record = arguments.record or record_of("conversations")
        server = Replay([], "", Weak(read_record(record))) if arguments.weak else chosen(arguments, record)
        replay = stack.enter_context(server) if server else None
        report = make_report(asyncio.run(form_corpus(replay)))
    if replay:
        listings = [("Recorded with another prompt", replay.notes())] if replay.other_prompts else []
        listings += [("Summary", report.summary()), *_lists(report), *judging.sections(report, replay.exchanges)]
    else:
        listings = _listings(report, missed=arguments.missed, found=arguments.found)
    _show(report, listings, None if arguments.list else 1000)
    if arguments.list:
        text = "\n".join(f"# {title}\n" + "\n".join(lines) + "\n" for title, lines in listings)
        arguments.list.write_text(text, encoding="utf-8")


def _show(report: Report, listings: list[judging.Section], most: int | None) -> None:
    """Return the figures alone, the first lines of each section, if the lists go into a file."""
    console = Console(width=160)
    console.print(report.formed.described, highlight=False)
    console.print(_table(report))
    for title, lines in listings:
        console.print(f"\n[bold]{title}[/bold] ({len(lines)} lines)")
        for line in lines[: most or 4]:
            console.print(line, markup=False, highlight=False)


def _lists(report: Report) -> list[judging.Section]:
    return [
        ("Wrong: formed, and on no list or on the list of traps", report.wrong_lines()),
        ("Facts that changed", report.change_lines()),
        ("Missed", report.missed_lines()),
    ]


async def _candidates() -> list[str]:
    async with Mnemic.open() as memory:
        return candidates.summary(await candidates.measure(memory.resources))


def _table(report: Report) -> Table:
    table = Table("", "expected", "found", "in another scope", "missed", title="Facts of the example conversations")
    for row in report.rows:
        table.add_row(
            row.kind, str(row.expected), f"{row.found} ({row.found_share:.0%})", str(row.elsewhere), str(row.missed)
        )
    return table


def _listings(report: Report, *, missed: bool, found: bool) -> list[judging.Section]:
    wrong, changed, not_found = _lists(report)
    return [
        ("Summary", report.summary()),
        wrong,
        changed,
        ("Everyday conversations, by the offline rules", summary(missed=missed)),
        *([not_found] if missed else []),
        *([("Found", report.found_lines())] if found else []),
        ("What a decision is shown", asyncio.run(_candidates())),
    ]


if __name__ == "__main__":
    main()
