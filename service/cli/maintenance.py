"""`mnemic maintenance`: lists and starts runs of the daily maintenance; and `mnemic update`."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import typer
from rich.console import RenderableType

from mnemic.service.cli.options import (
    ADMINISTRATOR,
    Agent,
    AsJson,
    Groups,
    Limit,
    Principal,
    Session,
    User,
    open_memory,
    person,
    to_moment,
)
from mnemic.service.cli.terminal import command_line, plain, report, say, table, to_the_second, verbatim
from mnemic.service.cli.usage import spent_line
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.maintenance import MaintenanceRun

_TITLES = ("run", "started (UTC)", "what", "ended", "by")


async def maintenance(
    agent: Agent,
    now: Annotated[bool, typer.Option("--now", help="Do what is due for this agent now.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would change, and record it.")] = False,
    actor: Principal = ADMINISTRATOR,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List the maintenance runs of an agent, newest first: figures, no contents. Or do one."""
    if now and dry_run:
        raise InvalidInputError("--now does it and --dry-run does not: give one of them")
    who = Identity(agent_id=agent, actor_id=actor)
    async with open_memory() as memory:
        if not (now or dry_run):
            runs = await memory.admin.maintenance_runs(who, limit=limit)
            report(runs, _table(runs), as_json=as_json, nothing="no maintenance yet")
            return
        run = await memory.admin.maintain(who, dry_run=dry_run)
    report(run, [*_table([run]), *map(verbatim, spent_line(run.spent))], as_json=as_json)
    if any(run.counts.values()) and not (dry_run or as_json):
        say(f"to undo it: {command_line('undo', run=str(run.id), agent=agent)}")


def _table(runs: list[MaintenanceRun]) -> Iterator[RenderableType]:
    rows = [(run.id, to_the_second(run.started_at), _what(run), _end(run), run.actor) for run in runs]
    yield from table(rows, *_TITLES)


def _what(run: MaintenanceRun) -> list[str]:
    done = [f"{name} {count}" for name, count in run.counts.items() if count]
    failed = [f"failed: {step}" for step in run.failed]
    return ["dry run"] * run.is_dry_run + (done or ["nothing was due"]) + failed


def _end(run: MaintenanceRun) -> str:
    return to_the_second(run.ended_at) if run.ended_at else "not yet"


async def update(
    memory_id: Annotated[UUID, typer.Argument(metavar="ID", help="As `mnemic memories` prints it.")],
    agent: Agent,
    user: User,
    pin: Annotated[bool | None, typer.Option("--pin/--no-pin", help="Whether maintenance leaves it alone.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Its tags, all of them; repeatable.")] = None,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Remove its tags.")] = False,
    importance: Annotated[int | None, typer.Option(help="1 trivial to 5 vital.")] = None,
    until: Annotated[str | None, typer.Option(help="When it ceases to hold: a time with its zone.")] = None,
    group: Groups = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Pin, tag or weigh a memory of a person, or say when it ends; what it says stays."""
    if tag and no_tags:
        raise InvalidInputError("--tag sets tags and --no-tags removes them: give one of them")
    async with open_memory() as memory:
        done = await memory.update(
            person(agent, user, group, session),
            memory_id,
            pinned=pin,
            tags=[] if no_tags else tag or None,
            importance=importance,
            valid_until=to_moment(until) if until else None,
        )
    fields = {"pinned": done.pinned, "tags": done.tags or [], "importance": done.importance}
    until_line = {"valid until": done.valid_until} if done.valid_until else {}
    report(done, [plain(f"{name}: {value}") for name, value in {**fields, **until_line}.items()], as_json=as_json)
