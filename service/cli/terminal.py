"""One way to print, to ask and to end: results on standard output, progress and messages on standard error."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sized
from datetime import UTC, datetime
from functools import wraps
from typing import ParamSpec, TypeVar

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from mnemic.policy.text.shape import clean_text
from mnemic.state.errors import MnemicError
from mnemic.state.governance import Operation
from mnemic.state.records import HistoryEvent

Parameters = ParamSpec("Parameters")
Found = TypeVar("Found", bound=Sized)

#: Columns of output that goes into a file or a pipe, and the most that lines of prose take in a wide terminal.
WIDTH = 100
#: The command did its work, and found something that is not as it should be.
EXIT_FOUND_WRONG = 1
#: The command could not do its work; typer uses the same for wrong arguments.
EXIT_FAILED = 2


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


def report(found: Found, view: Callable[[Found], None], *, as_json: bool, nothing: str) -> None:
    """Prints what a command found: as JSON, else as the view shows it; where it is nothing, a message says so."""
    if as_json:
        emit(found)
    elif found:
        view(found)
    else:
        say(nothing)


def exit_if_wrong(is_wrong: object) -> None:
    """Ends the command with exit code 1 where it found something wrong."""
    if is_wrong:
        raise typer.Exit(EXIT_FOUND_WRONG)


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


def blocking(command: Callable[Parameters, Awaitable[None]]) -> Callable[Parameters, None]:
    """The command as typer wants it, with the same name, arguments and help."""

    @wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        async def work() -> None:
            await command(*args, **kwargs)

        # a pool that cannot connect says so once a second; the error at its end says it once, and what to do
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        try:
            asyncio.run(work())
        except MnemicError as error:
            say(f"mnemic: {error}")
            raise typer.Exit(EXIT_FAILED) from None

    return run


def _console() -> Console:
    watched = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=min(Console().width, WIDTH) if watched else WIDTH)
