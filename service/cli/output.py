"""What reaches the terminal: results on standard output, progress and messages on standard error."""

import json
import os
import sys
from datetime import UTC, datetime

from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from mnemic.policy.text.hygiene import clean_text
from mnemic.state.records import HistoryEvent
from mnemic.state.rollback import Operation

#: Columns of output that goes into a file or a pipe, and the most that lines of prose take in a wide terminal.
WIDTH = 100


def plain(text: object, style: str = "") -> Text:
    """Text on one line as it is: no markup is read in it, and no control character of it reaches the terminal."""
    return Text(" ".join(clean_text(str(text)).split()), style=style)


def show(*renderables: RenderableType) -> None:
    """Prints on standard output; strings are our own words and may carry markup."""
    console = _console()
    for renderable in renderables:
        console.print(renderable, highlight=False)


def show_text(text: str) -> None:
    """Prints stored text as it is, its line breaks included."""
    # not folded at the terminal's width: it is meant to be copied
    Console().print(Text(clean_text(text)), soft_wrap=True)


def emit(document: object) -> None:
    """Prints one JSON document. All beyond ASCII is escaped, so that it cannot steer a terminal."""
    sys.stdout.write(json.dumps(to_jsonable_python(document), indent=2) + "\n")


def say(text: str) -> None:
    """A message on standard error."""
    Console(stderr=True, soft_wrap=True).print(Text(clean_text(text)))


def note(text: str) -> None:
    """A line beside what is going on, on standard error, set in and as it is."""
    console = Console(stderr=True, soft_wrap=True)
    console.print(Text("  ") + plain(text, "dim"), highlight=False)


def columns(*titles: str) -> Table:
    """An open table for lines with several values."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(titles), header_style="dim")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def acting(act: HistoryEvent | Operation) -> str:
    """Who did it, and who brought words of somebody else that it was done with."""
    return f"{act.actor}, words of others brought by {', '.join(act.brought_by)}" if act.brought_by else act.actor


def day(moment: datetime) -> str:
    """`2026-03-02`, in UTC."""
    return moment.astimezone(UTC).date().isoformat()


def progress() -> Progress:
    """A bar on standard error that vanishes when it is done; none where nobody watches."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def _console() -> Console:
    watched = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=min(Console().width, WIDTH) if watched else WIDTH)
