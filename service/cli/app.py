"""All commands in the order of `mnemic --help`."""

import io
import sys
from typing import Annotated

import typer

from mnemic import __version__
from mnemic.service.cli import audit
from mnemic.service.cli.chat import chat, threads
from mnemic.service.cli.demo import demo
from mnemic.service.cli.form import form
from mnemic.service.cli.operate import doctor, dump, migrate, token
from mnemic.service.cli.recall import history, memories, query, recall
from mnemic.service.cli.refinement import refine, refinements
from mnemic.service.cli.retention import erase, protect, purge, unprotect
from mnemic.service.cli.terminal import blocking
from mnemic.service.cli.time_machine import as_of, restore, undo

app = typer.Typer(
    name="mnemic",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
database = typer.Typer(help="Set up and dump the database.", no_args_is_help=True)
audits = typer.Typer(help="What was done, and whether the record of it is whole.", no_args_is_help=True)

_COMMANDS = (
    (app, (demo, chat, threads, form, query, recall, memories, history)),
    (app, (refine, refinements, protect, unprotect)),
    (app, (undo, restore, as_of, erase, purge, doctor, token)),
    (database, (migrate, dump)),
    (audits, (audit.log, audit.verify, audit.anchor, audit.export, audit.check)),
)
for group, commands in _COMMANDS:
    for command in commands:
        group.command()(blocking(command))
app.add_typer(database, name="db")
app.add_typer(audits, name="audit")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def common(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Long-term memory for LangGraph agents, on Postgres."""


def main() -> None:
    """The entry point `mnemic`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows `?` and not a traceback
    app(prog_name="mnemic")
