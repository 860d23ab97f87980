"""`mnemic audit`: what was done, whether the record of it is whole, and the proof of that outside of the database."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.text import Text

from mnemic.policy.governance.audit import CheckedExport, check_export
from mnemic.service.cli.options import Agent, AsJson, Concerned, OfSession, Session, User, person, to_time
from mnemic.service.cli.terminal import (
    acting,
    columns,
    emit,
    exit_if_wrong,
    plain,
    report,
    say,
    show,
    show_text,
)
from mnemic.service.cli.time_machine import time_machine
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import BrokenAuditError, InvalidInputError
from mnemic.state.governance import AuditProblem, Operation

OneAgent = Annotated[str | None, typer.Option("--agent", help="Only this agent's history; without it, all of them.")]
Anchors = Annotated[Path | None, typer.Option("--anchors", help="A file that `mnemic audit anchor` has written.")]
AnchorsFile = Annotated[Path, typer.Argument(metavar="FILE", help="Where the anchor is added; made if need be.")]
Output = Annotated[Path | None, typer.Option("--output", help="A new file; without it, standard output.")]
Export = Annotated[Path, typer.Argument(metavar="FILE", help="What `mnemic audit export` has written.")]
Since = Annotated[str | None, typer.Option("--since", help="Only what was done from this time on, with its zone.")]
Limit = Annotated[int, typer.Option("--limit", help="Operations at most.")]

#: Problems that are named on standard output; `--json` has them all.
_NAMED = 50


async def verify(agent: OneAgent = None, anchors: Anchors = None, as_json: AsJson = False) -> None:
    """Check the history of every agent, or of one; the exit code is 1 where something is wrong."""
    async with Administration.open() as administration:
        problems = await administration.verify(agent, anchors)
    if as_json:
        emit([{**asdict(problem), "explanation": problem.explanation} for problem in problems])
    else:
        _show_problems(problems)
    if anchors is None:
        say("without --anchors nobody sees whether the end was cut off, or all of it written anew")
    exit_if_wrong(problems)


def _show_problems(problems: Sequence[AuditProblem]) -> None:
    if not problems:
        show("nothing is wrong")
        return
    table = columns("agent", "seq", "what")
    for problem in problems[:_NAMED]:
        table.add_row(plain(problem.agent_id or ""), plain(problem.seq or ""), _explained(problem))
    show(f"[red]{len(problems)} problem{'s' if len(problems) > 1 else ''}[/]", table)
    if len(problems) > _NAMED:
        show(f"and {len(problems) - _NAMED} more; --json has them all")


def _explained(problem: AuditProblem) -> Text:
    where = [plain(f"line {problem.line} of the anchors", "dim")] if problem.line else []
    which = [plain(f"memory {problem.memory_id}", "dim")] if problem.memory_id else []
    return Text("\n").join([plain(f"{problem.problem}: {problem.explanation}"), *where, *which])


async def anchor(agent: Agent, file: AnchorsFile, as_json: AsJson = False) -> None:
    """Sign what an agent's history hashes to now and add it to a file; refused where the history is not whole."""
    async with Administration.open() as administration:
        try:
            made = await administration.anchor(agent, file)
        except BrokenAuditError as error:
            _show_problems(error.problems)
            raise
    if as_json:
        emit(made)
    else:
        show_text(f"{made.agent}: {made.seq} rows, hash {made.hash}")


async def export(agent: Agent, user: User, session: Session = None, output: Output = None) -> None:
    """Write a person's own history with its contents, in a form that anybody can check: one JSON object a line."""
    who = person(agent, user, session=session)
    async with Mnemic.open() as memory:
        with _writable(output) as file:
            async for line in memory.export_audit(who):
                file.write(line + "\n")


@contextmanager
def _writable(output: Path | None) -> Iterator[TextIO]:
    try:
        with nullcontext(sys.stdout) if output is None else output.open("x", encoding="ascii") as file:
            yield file
    except OSError as error:
        raise InvalidInputError(f"{output or 'standard output'} cannot be written: {_reason(error)}") from None


async def check(file: Export, as_json: AsJson = False) -> None:
    """Check an export with nothing but its own lines; the exit code is 1 where they do not fit together."""
    try:
        with file.open("rb") as lines:
            checked = check_export(lines)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {_reason(error)}") from None
    if as_json:
        emit(checked)
    else:
        _show_check(checked)
    exit_if_wrong(checked.problems)


def _show_check(checked: CheckedExport) -> None:
    for problem in checked.problems[:_NAMED]:
        show(plain(f"line {problem.line}: {problem.reason}"))
    if len(checked.problems) > _NAMED:
        show(f"and {len(checked.problems) - _NAMED} more; --json has them all")
    if checked.agent is not None:
        show(plain(f"{checked.rows} rows of agent {checked.agent}; {checked.own} of them the person's own, "
                   f"of which {checked.erased} were erased"))  # fmt: skip
        show_text(f"compare with an anchor: seq {checked.seq}, hash {checked.hash}")
    if not checked.problems:
        show("nothing is wrong")


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


async def log(
    agent: Agent,
    user: Concerned = None,
    session: OfSession = None,
    since: Since = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List what was done to memories, newest first: ids and figures, no contents."""
    moment = None if since is None else to_time(since, "--since")
    async with time_machine(agent, user, session) as (machine, whose):
        found = await machine.operations(whose, session_id=session, since=moment, limit=limit)
    report(found, _list_operations, as_json=as_json, nothing="no operations")


def _list_operations(operations: Sequence[Operation]) -> None:
    table = columns("when (UTC), and its operation", "rows", "why, by", "what")
    table.columns[0].no_wrap = True  # an id is there to be copied
    for operation in operations:
        when = operation.ts.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        rows = f"{operation.first_seq}-{operation.last_seq}"
        events = ", ".join(f"{count} {event}" for event, count in sorted(operation.events.items()))
        if operation.left:
            events += f"; {operation.left} changes left, the same call goes on"
        which = Text("\n").join([plain(when), plain(operation.op_id, "dim")])
        table.add_row(which, rows, plain(f"{operation.reason}, {acting(operation)}"), plain(events))
    show(table)
