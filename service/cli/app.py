"""All commands by their modules, and the commands `doctor`, `db` and `token`."""

import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from dotenv import load_dotenv

from mnemic import __version__
from mnemic.models.embedders import make_embedder
from mnemic.models.trial import Tried, try_models
from mnemic.service.cli import (
    audit,
    chat,
    demo,
    form,
    jobs,
    maintenance,
    models,
    recall,
    stats,
    time_machine,
    upkeep,
    usage,
)
from mnemic.service.cli.models import ENV_FILE, MARKS, trial_lines
from mnemic.service.cli.options import AsJson, Groups
from mnemic.service.cli.terminal import blocking, exit_if_wrong, plain, report, say, table, verbatim
from mnemic.service.server.auth_tokens import new_token
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread
from mnemic.storage.doctor import check, check_vectors
from mnemic.storage.opening import dump_database, open_database, set_up_database

Target = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="File to write.")]


Models = Annotated[bool, typer.Option("--models", help="Also try each model and the embedder.")]


async def doctor(with_models: Models = False, as_json: AsJson = False) -> None:
    """Check the database and print the remedy for each problem. The exit code is 1 if there is one."""
    settings = Settings()
    async with open_database(settings, sound=False) as database:  # every other command refuses a broken database
        findings = await check(database)
        if all(finding.ok for finding in findings):
            embedder = await in_thread(make_embedder, settings)
            findings.append(await check_vectors(database, embedder.name))
    trials: list[Tried] = []
    if with_models:
        trials = [trial async for trial in try_models(settings)]
    rows = [(MARKS[finding.ok], finding.name, finding.remedy or finding.note) for finding in findings]
    report([*findings, *trials], [*table(rows), *trial_lines(trials)], as_json=as_json, nothing="no checks")
    is_ok = all(finding.ok for finding in findings) and all(trial.ok for trial in trials)
    exit_if_wrong(not is_ok)


async def migrate(as_json: AsJson = False) -> None:
    """Set up or update the database of MNEMIC_MIGRATION_URL, by default the embedded one."""
    ran = await set_up_database(Settings())
    lines = [plain(f"ran {name}") for name in ran]
    report({"ran": ran}, lines or [plain("the database is up to date")], as_json=as_json)


async def dump(file: Target, as_json: AsJson = False) -> None:
    """Dump the whole database into a file for `pg_restore`."""
    size = await dump_database(Settings(), file)
    report({"file": file, "bytes": size}, [plain(f"{file}: {size:,} bytes")], as_json=as_json)


async def token(
    user: Annotated[str, typer.Option(help="User of the token's holder.")],
    agent: Annotated[list[str] | None, typer.Option(help="Agent that it may use; repeatable. Default: all.")] = None,
    group: Groups = None,
    days: Annotated[int, typer.Option(help="Days of validity.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Print a bearer token for the server, signed with MNEMIC_SERVER_KEY. Its holder acts as the user."""
    key = Settings().server_key
    if key is None:
        raise ConfigurationError(
            "no key to sign the token: set MNEMIC_SERVER_KEY to the server's secret of at least 16 characters"
        )
    secret, now = key.get_secret_value(), datetime.now(UTC)
    signed, ends = new_token(user, agent or (), group or (), secret, days=days, now=now)
    report({"token": signed, "expires": ends}, [verbatim(signed)], as_json=as_json)
    if not as_json:
        say(f"valid until {ends:%Y-%m-%d %H:%M} UTC")


app = typer.Typer(
    name="mnemic",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
database = typer.Typer(help="Set up and dump the database.", no_args_is_help=True)
background = typer.Typer()
audits = typer.Typer(help="List, verify and export the history.", no_args_is_help=True)

_MODULES = (demo, models, chat, form, recall, upkeep, time_machine, usage, stats, maintenance, jobs)
_COMMANDS = (
    *((app, module.COMMANDS) for module in _MODULES),
    (app, (doctor, token)),
    (background, (jobs.retry, jobs.cancel)),
    (database, (migrate, dump)),
    (audits, (audit.log, audit.verify, audit.anchor, audit.export, audit.check)),
)
background.callback(invoke_without_command=True)(blocking(jobs.jobs))
for group, commands in _COMMANDS:
    for command in commands:
        group.command()(blocking(command))
app.add_typer(database, name="db")
app.add_typer(background, name="jobs")
app.add_typer(audits, name="audit")


@app.callback(invoke_without_command=True)
def common(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Long-term memory for LangGraph agents, on Postgres."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the program `mnemic`."""
    load_dotenv(ENV_FILE)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows `?` instead of a traceback
    app(prog_name="mnemic")
