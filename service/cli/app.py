"""All commands in the order of `mnemic --help`."""

import io
import sys

import typer

from mnemic.service.cli.database import doctor, dump, migrate
from mnemic.service.cli.demo import demo
from mnemic.service.cli.form import form
from mnemic.service.cli.look import history, memories
from mnemic.service.cli.recall import context, recall
from mnemic.service.cli.running import blocking

app = typer.Typer(
    name="mnemic",
    help="Long-term memory for LangGraph agents, on Postgres.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
database = typer.Typer(help="Set up and dump the database.", no_args_is_help=True)

for command in (demo, form, recall, context, memories, history, doctor):
    app.command()(blocking(command))
database.command()(blocking(migrate))
database.command()(blocking(dump))
app.add_typer(database, name="db")


def main() -> None:
    """The entry point `mnemic`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows `?` and not a traceback
    app(prog_name="mnemic")
