"""`mnemic audit`: what was done, whether the record of it is whole, and the proof of that outside of the database."""

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
    Concerned,
    Limit,
    Session,
    User,
    governing,
    open_memory,
    person,
    to_moment,
)
from mnemic.service.cli.terminal import acting, exit_if_wrong, plain, report, say, show, table, to_the_second, verbatim
from mnemic.service.governance.administration import Administration
from mnemic.state.errors import BrokenAuditError, InvalidInputError
from mnemic.state.files import create_private
from mnemic.state.governance import AuditProblem, Operation
from mnemic.state.identity import Identity

OneAgent = Annotated[str | None, typer.Option("--agent", help="Only this agent's history; without it, all of them.")]
Anchors = Annotated[Path | None, typer.Option("--anchors", help="A file that `mnemic audit anchor` has written.")]
AnchorsFile = Annotated[Path, typer.Argument(metavar="FILE", help="Where the anchor is added; made if need be.")]
Output = Annotated[Path | None, typer.Option("--output", help="A new file; without it, standard output.")]
Export = Annotated[Path, typer.Argument(metavar="FILE", help="What `mnemic audit export` has written.")]

#: Problems that are named on standard output; `--json` has them all.
_NAMED = 50
_TITLES = ("when (UTC), and its operation", "rows", "why, by", "what")


async def verify(agent: OneAgent = None, anchors: Anchors = None, as_json: AsJson = False) -> None:
    """Check the history of every agent, or of one; the exit code is 1 where something is wrong."""
    identity = Identity(agent_id=agent) if agent else None
    async with Administration.open() as administration:
        problems = await administration.verify(identity, anchors)
    explained = [{**asdict(problem), "explanation": problem.explanation} for problem in problems]
    report(explained, _list_problems(problems), as_json=as_json)
    if anchors is None:
        say("without --anchors nobody sees whether the end was cut off, or all of it written anew")
    exit_if_wrong(problems)


def _list_problems(problems: Sequence[AuditProblem]) -> Iterator[RenderableType]:
    if not problems:
        yield "nothing is wrong"
        return
    rows = []
    for problem in problems[:_NAMED]:
        what = [f"{problem.problem}: {problem.explanation}"]
        what += [f"line {problem.line} of the anchors"] if problem.line else []
        what += [f"memory {problem.memory_id}"] if problem.memory_id else []
        rows.append((problem.revision or "", problem.agent_id or "", what))
    yield from table(rows, "revision", "agent", "what")
    yield f"[red]problems: {len(problems)}[/]{_further(problems)}"


async def anchor(agent: Agent, file: AnchorsFile, as_json: AsJson = False) -> None:
    """Sign what an agent's history hashes to now and add it to a file; refused where the history is not whole."""
    async with Administration.open() as administration:
        try:
            made = await administration.anchor(Identity(agent_id=agent), file)
        except BrokenAuditError as error:
            show(*_list_problems(error.problems))
            raise
    report(made, [verbatim(f"{made.agent}: {made.revision} rows, hash {made.hash}")], as_json=as_json)


async def export(agent: Agent, user: User, session: Session = None, output: Output = None) -> None:
    """Write a person's own history with its contents, in a form that anybody can check: one JSON object a line."""
    who = person(agent, user, session=session)
    async with open_memory() as memory:
        try:
            with nullcontext(sys.stdout) if output is None else _created(output) as file:
                async for line in memory.privacy.export_audit(who):
                    file.write(line + "\n")
        except OSError as error:
            raise InvalidInputError(f"{output or 'standard output'} cannot be written: {error.strerror}") from None


def _created(output: Path) -> TextIO:
    return os.fdopen(create_private(output), "w", encoding="ascii")


async def check(file: Export, as_json: AsJson = False) -> None:
    """Check an export with nothing but its own lines; the exit code is 1 where they do not fit together."""
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
        own = f"{checked.own} of them the person's own, of which {checked.erased} were erased"
        yield plain(f"{checked.rows} rows of agent {checked.agent}; {own}")
        yield verbatim(f"compare with an anchor: revision {checked.revision}, hash {checked.hash}")
    problems = f"problems: {len(checked.problems)}{_further(checked.problems)}"
    yield problems if checked.problems else "nothing is wrong"


def _further(problems: Sequence[object]) -> str:
    return "; --json has them all" if len(problems) > _NAMED else ""


async def log(
    agent: Agent,
    user: Concerned = None,
    session: Session = None,
    since: Annotated[str | None, typer.Option(help="Only what was done from this time on, with its zone.")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List what was done to memories, newest first: ids and figures, no contents."""
    moment = None if since is None else to_moment(since)
    async with governing(agent, user, session) as (machine, whose):
        found = await machine.history.operations(whose, session_id=session, since=moment, limit=limit)
    report(found, table(map(_row, found), *_TITLES), as_json=as_json, nothing="no operations")


def _row(operation: Operation) -> tuple[object, ...]:
    events = ", ".join(f"{count} {event}" for event, count in sorted(operation.events.items()))
    if operation.left:
        events += f"; {operation.left} changes left, the same call goes on"
    when, why = to_the_second(operation.ts), f"{operation.reason}, {acting(operation)}"
    return [when, plain(operation.id, "dim")], f"{operation.first_revision}-{operation.last_revision}", why, events
