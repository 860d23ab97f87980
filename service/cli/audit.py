"""The commands `mnemic audit`: list, verify, anchor, export and check the history."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import RenderableType

from mnemic.memory.governance.chain import CheckedExport, check_export
from mnemic.service.cli.options import (
    Agent,
    AsJson,
    GoverningOptions,
    Limit,
    PersonOptions,
    Session,
    User,
    governing,
    open_memory,
    to_time,
)
from mnemic.service.cli.terminal import acting, exit_if_wrong, plain, report, say, show, table, to_the_second, verbatim
from mnemic.service.governance.administration import Administration
from mnemic.state.errors import BrokenAuditError, InvalidInputError
from mnemic.state.files import create_private
from mnemic.state.governance import AuditProblem, Operation
from mnemic.state.identity import Identity

OneAgent = Annotated[str | None, typer.Option("--agent", help="Only this agent. Default: all agents.")]
Anchors = Annotated[Path | None, typer.Option("--anchors", help="File of `mnemic audit anchor`.")]
AnchorsFile = Annotated[Path, typer.Argument(metavar="FILE", help="File for the anchor, created if missing.")]
Output = Annotated[Path | None, typer.Option("--output", help="New file. Default: standard output.")]
Export = Annotated[Path, typer.Argument(metavar="FILE", help="File of `mnemic audit export`.")]

#: Maximum number of printed problems; `--json` prints all.
_NAMED = 50
_TITLES = ("time (UTC), operation", "rows", "reason, actor", "changes")


async def verify(agent: OneAgent = None, anchors: Anchors = None, as_json: AsJson = False) -> None:
    """Verify the history of every agent, or of one. The exit code is 1 if there is a problem."""
    identity = None if agent is None else Identity(agent_id=agent)
    async with Administration.open() as administration:
        problems = await administration.verify(identity, anchors)
    explained = [{**asdict(problem), "explanation": problem.explanation} for problem in problems]
    report(explained, _list_problems(problems), as_json=as_json)
    if anchors is None:
        say("without --anchors a history that was cut off or rewritten as a whole is not detected")
    exit_if_wrong(problems)


def _list_problems(problems: Sequence[AuditProblem]) -> Iterator[RenderableType]:
    if not problems:
        yield "no problems"
        return
    rows: list[Sequence[object]] = []
    for problem in problems[:_NAMED]:
        lines = [f"{problem.problem}: {problem.explanation}"]
        if problem.line:
            lines.append(f"line {problem.line} of the anchors")
        if problem.memory_id:
            lines.append(f"memory {problem.memory_id}")
        rows.append((problem.revision or "", problem.agent_id or "", lines))
    yield from table(rows, "revision", "agent", "problem")
    yield f"[red]problems: {len(problems)}[/]{_further(problems)}"


async def anchor(agent: Agent, file: AnchorsFile, as_json: AsJson = False) -> None:
    """Sign the hash of an agent's history and add it to a file. A history with problems is refused."""
    async with Administration.open() as administration:
        try:
            made = await administration.anchor(Identity(agent_id=agent), file)
        except BrokenAuditError as error:
            show(*_list_problems(error.problems))
            raise
    report(made, [verbatim(f"{made.agent}: {made.revision} rows, hash {made.hash}")], as_json=as_json)


async def export(agent: Agent, user: User, session: Session = None, output: Output = None) -> None:
    """Write a person's own history with its contents as JSON lines, which `mnemic audit check` verifies."""
    identity = PersonOptions(agent=agent, user=user, session=session).owner()
    async with open_memory() as memory:
        try:
            with _created(output) if output else nullcontext(sys.stdout) as file:
                async for line in memory.privacy.export_audit(identity):
                    file.write(line + "\n")
        except OSError as error:
            raise InvalidInputError(f"{output or 'standard output'} cannot be written: {error.strerror}") from None


def _created(output: Path) -> TextIO:
    return os.fdopen(create_private(output), "w", encoding="ascii")


async def check(file: Export, as_json: AsJson = False) -> None:
    """Check an export by its lines alone, without the database. The exit code is 1 if there is a problem."""
    try:
        with file.open("rb") as lines:
            checked = check_export(lines)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}") from None
    report(checked, _describe(checked), as_json=as_json)
    exit_if_wrong(checked.problems)


def _describe(checked: CheckedExport) -> Iterator[RenderableType]:
    for problem in checked.problems[:_NAMED]:
        yield plain(f"line {problem.line}: {problem.reason}")
    if checked.agent is not None:
        own = f"{checked.own} of them of the person, {checked.erased} of these erased"
        yield plain(f"{checked.rows} rows of agent {checked.agent}; {own}")
        yield verbatim(f"compare with an anchor: revision {checked.revision}, hash {checked.hash}")
    if checked.problems:
        yield f"problems: {len(checked.problems)}{_further(checked.problems)}"
    else:
        yield "no problems"


def _further(problems: Sequence[object]) -> str:
    if len(problems) <= _NAMED:
        return ""
    return "; --json prints all"


async def log(
    person: GoverningOptions,
    since: Annotated[str | None, typer.Option(help="Only operations since this day or time.")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List the operations on memories, newest first, without contents."""
    time = None if since is None else to_time("--since", since)
    async with governing(person) as (service, identity):
        operations = await service.history.operations(identity, session_id=person.session, since=time, limit=limit)
    report(operations, table(map(_row, operations), *_TITLES), as_json=as_json, nothing="no operations")


def _row(operation: Operation) -> tuple[object, ...]:
    events = ", ".join(f"{count} {event}" for event, count in sorted(operation.events.items()))
    if operation.left:
        events += f"; {operation.left} changes left, the same call continues"
    time = [to_the_second(operation.ts), plain(operation.id, "dim")]
    rows = f"{operation.first_revision}-{operation.last_revision}"
    return time, rows, f"{operation.reason}, {acting(operation)}", events
