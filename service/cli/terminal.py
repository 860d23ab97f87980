"""One way to print, to ask and to end: results on standard output, progress and messages on standard error."""

import asyncio
import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from mnemic.memory.text.shape import clean_text
from mnemic.state.errors import MnemicError
from mnemic.state.governance import Operation
from mnemic.state.records import HistoryEvent

Parameters = ParamSpec("Parameters")

#: Columns of output that goes into a file or a pipe, and the most that lines of prose take in a wide terminal.
WIDTH = 100


def plain(text: object, style: str = "") -> Text:
    """Text on one line as it is: no markup is read in it, and no control character of it reaches the terminal."""
    if isinstance(text, Text):
        return text  # it is already
    return Text(" ".join(clean_text(str(text)).split()), style=style)


def verbatim(text: str) -> Text:
    """Stored text as it is, its line breaks included; not folded at the terminal's width, for it is to be copied."""
    return Text(clean_text(text), no_wrap=True)


def table(rows: Iterable[Iterable[object]], *titles: str) -> list[RenderableType]:
    """An open table for lines with several values; nothing where there are none.

    Args:
        rows: the cells of each line; a list is the lines of one cell.
        titles: of the columns, of which the first is not folded, for ids in it are to be copied; none: no head.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(titles), header_style="dim")
    for number, title in enumerate(titles):
        made.add_column(title, overflow="fold", no_wrap=number == 0)
    for row in rows:
        cells = (cell if isinstance(cell, list) else [cell] for cell in row)
        made.add_row(*(Text("\n").join(map(plain, lines)) for lines in cells))
    return [made] if made.row_count else []


def show(*renderables: RenderableType) -> None:
    """Prints on standard output; strings are our own words and may carry markup."""
    watched = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=min(Console().width, WIDTH) if watched else WIDTH)
    for renderable in renderables:
        # a text's own `no_wrap` counts in a table, and here not
        console.print(renderable, highlight=False, soft_wrap=bool(getattr(renderable, "no_wrap", False)))


def report(document: object, lines: Iterable[RenderableType], *, as_json: bool, nothing: str = "") -> None:
    """Prints what a command found or did: one JSON document, or lines; where there are none, a message says so."""
    if as_json:
        # all beyond ASCII is escaped, so that it cannot steer a terminal
        sys.stdout.write(json.dumps(to_jsonable_python(document), indent=2) + "\n")
    elif shown := list(lines):
        show(*shown)
    elif nothing:
        say(nothing)


def say(text: str | Text) -> None:
    """A message on standard error."""
    Console(stderr=True, soft_wrap=True).print(text if isinstance(text, Text) else Text(clean_text(text)))


def command_line(*words: object, **options: str | Sequence[str] | None) -> str:
    """`mnemic` with these words and options, to be typed as it is; an option without a value is left out."""
    line = ["mnemic", *map(str, words)]
    for name, value in options.items():
        for each in [value] if isinstance(value, str) else value or ():
            line += [f"--{name}", each]
    return shlex.join(line)


def acting(act: HistoryEvent | Operation) -> str:
    """Who did it, and who brought words of somebody else that it was done with."""
    return f"{act.actor}, words of others brought by {', '.join(act.submitted_by)}" if act.submitted_by else act.actor


def day(moment: datetime) -> str:
    """Return `2026-03-02`, at the offset of the moment."""
    return moment.date().isoformat()


def to_the_second(moment: datetime) -> str:
    """`2026-03-02 09:14:00`, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def progress() -> Progress:
    """A bar on standard error that vanishes when it is done; none where nobody watches."""
    return Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def exit_if_wrong(is_wrong: object, message: str = "") -> None:
    """Ends the command with exit code 1 where it found something wrong, after a message if there is one."""
    if is_wrong:
        if message:
            say(message)
        raise typer.Exit(1)


def withheld(question: str, *, yes: bool, as_json: bool) -> str | None:
    """Why it is not done, there being nothing else against it; None: somebody said yes.

    Args:
        question: asked at a terminal, on standard error, for standard output may be a file.
        yes: it was said on the command line.
        as_json: whoever reads the answer is a program, and is asked nothing.
    """
    if yes:
        return None
    if as_json or not sys.stdin.isatty():
        return "--yes does it"
    return None if typer.confirm(question, err=True) else "as you say"


def blocking(command: Callable[Parameters, Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
    """The command as typer wants it, with the same name, arguments and help."""

    @wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        # a pool that cannot connect says so once a second; the error at its end says it once, and what to do
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        try:
            asyncio.run(command(*args, **kwargs))
        except MnemicError as error:
            say(f"mnemic: {error}")
            raise typer.Exit(2) from None  # as typer ends where an argument is wrong

    return run
