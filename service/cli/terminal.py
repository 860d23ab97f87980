"""Output of commands: results on standard output, progress and messages on standard error."""

import asyncio
import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from inspect import Parameter, Signature, signature
from typing import Any, Final

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from mnemic.memory.text.shape import clean_text
from mnemic.models import missing
from mnemic.state.errors import MnemicError
from mnemic.state.governance import Operation
from mnemic.state.records import HistoryEvent

#: Columns of output into a file or a pipe, and maximum columns in a terminal.
WIDTH = 100


def plain(text: object, style: str = "") -> Text:
    """Return text on one line, without markup and control characters."""
    if isinstance(text, Text):
        return text
    return Text(" ".join(clean_text(str(text)).split()), style=style)


def verbatim(text: str) -> Text:
    """Return stored text with its line breaks, not folded at the terminal's width, so that it can be copied."""
    return Text(clean_text(text), no_wrap=True)


def table(rows: Iterable[Iterable[object]], *titles: str) -> list[RenderableType]:
    """Return a table without borders, or nothing without rows.

    Args:
        rows: cells of each row; a list holds the lines of one cell.
        titles: titles of the columns; the first column is not folded, so that ids can be copied.
    """
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(titles), header_style="dim")
    for number, title in enumerate(titles):
        grid.add_column(title, overflow="fold", no_wrap=number == 0)
    for row in rows:
        grid.add_row(*map(_cell, row))
    if not grid.row_count:
        return []
    return [grid]


def _cell(value: object) -> Text:
    if not isinstance(value, list):
        return plain(value)
    return Text("\n").join(map(plain, value))


def show(*renderables: RenderableType) -> None:
    """Print on standard output; a string may have markup, so no stored text is passed as a string."""
    width = WIDTH
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        width = min(Console().width, WIDTH)
    console = Console(width=width)
    for renderable in renderables:
        # rich reads the `no_wrap` of a text only in tables
        console.print(renderable, highlight=False, soft_wrap=bool(getattr(renderable, "no_wrap", False)))


def report(document: object, lines: Iterable[RenderableType], *, as_json: bool, nothing: str = "") -> None:
    """Print the result of a command.

    Args:
        document: the result for JSON.
        lines: the result as lines.
        as_json: print the document instead of the lines.
        nothing: message if there are no lines.
    """
    if as_json:
        # characters beyond ASCII are escaped, so that none can control the terminal
        sys.stdout.write(json.dumps(to_jsonable_python(document), indent=2) + "\n")
    elif shown := list(lines):
        show(*shown)
    elif nothing:
        say(nothing)


def say(text: str | Text) -> None:
    """Print a message on standard error."""
    if not isinstance(text, Text):
        text = Text(clean_text(text))
    Console(stderr=True, soft_wrap=True).print(text)


def command_line(*words: object, **options: str | Sequence[str] | None) -> str:
    """Return `mnemic` with these words and options, quoted for a shell, without options that have no value."""
    line = ["mnemic", *map(str, words)]
    for name, value in options.items():
        values = [value] if isinstance(value, str) else value or ()
        for each in values:
            line += [f"--{name}", each]
    return shlex.join(line)


def acting(operation: HistoryEvent | Operation) -> str:
    """Return the actor, and the users who submitted messages of other authors."""
    if not operation.submitted_by:
        return operation.actor
    return f"{operation.actor}, messages of others submitted by {', '.join(operation.submitted_by)}"


def day(moment: datetime) -> str:
    """Return `2026-03-02`, at the offset of the moment."""
    return moment.date().isoformat()


def to_the_second(moment: datetime) -> str:
    """Return a time in UTC, such as `2026-03-02 09:14:00`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def progress() -> Progress:
    """Return a progress bar on standard error that vanishes at its end; it is disabled outside of a terminal."""
    return Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def exit_if_wrong(is_wrong: object, message: str = "") -> None:
    """End the command with exit code 1, after a message, if the condition holds."""
    if is_wrong:
        if message:
            say(message)
        raise typer.Exit(1)


def withheld(question: str, *, yes: bool, as_json: bool) -> str | None:
    """Return the reason if a change is not confirmed, or None if it is.

    Args:
        question: question at a terminal, on standard error, since standard output may be a file.
        yes: the option --yes.
        as_json: whether a program reads the output; then there is no question.
    """
    if yes:
        return None
    if as_json or not sys.stdin.isatty():
        return "confirm it with --yes"
    if typer.confirm(question, err=True):
        return None
    return "it was not confirmed"


#: Options by the names of the arguments that they set, which begin the message of an error.
_OPTIONS: Final = {
    "actor_id": "--actor",
    "agent_id": "--agent",
    "budget_tokens": "--budget",
    "categories": "--category",
    "category": "--category",
    "filters": "--filter",
    "group_ids": "--group",
    "importance": "--importance",
    "kinds": "--kind",
    "limit": "--limit",
    "role": "--role",
    "scopes": "--scope",
    "search_type": "--search-type",
    "session_id": "--session",
    "tags": "--tag",
    "threshold": "--threshold",
    "top_k": "--top-k",
    "user_id": "--user",
}


def _by_option(message: str) -> str:
    """Return the message of an error with the option in place of the argument that it names."""
    name, colon, reason = message.partition(": ")
    argument, _, part = name.partition(".")
    if argument not in _OPTIONS or not colon:
        return message
    if part:
        return f"{_OPTIONS[argument]} {part}: {reason}"
    if argument == "filters":  # the name of an unknown filter follows
        return f"{_OPTIONS[argument]} {reason}"
    return f"{_OPTIONS[argument]}: {reason}"


def _unfolded(text: str) -> str:
    """Return a docstring with each paragraph on one line, since the help keeps its line breaks."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def blocking(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return a command for typer: synchronous, and with the fields of option dataclasses as single options."""
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if is_dataclass(parameter.annotation):
            group: Any = parameter.annotation
            groups[parameter.name] = group
            parameters.extend(signature(group).parameters.values())
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    def run(**values: Any) -> None:
        arguments = dict(values)
        for name, options in groups.items():
            arguments[name] = options(**{field.name: arguments.pop(field.name) for field in fields(options)})
        missing.reported.set()  # a command that uses a model prints its name
        # a pool that cannot connect logs it every second; the error at its end has the reason and the remedy
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        try:
            asyncio.run(command(**arguments))
        except MnemicError as error:
            say(f"mnemic: {_by_option(str(error))}")
            raise typer.Exit(2) from None  # typer's exit code for a wrong argument

    run.__name__, run.__doc__ = command.__name__, _unfolded(command.__doc__ or "")
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run
