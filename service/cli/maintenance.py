"""The commands `maintenance` and `update`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from mnemic.service.cli.options import (
    ADMINISTRATOR,
    Agent,
    AsJson,
    Limit,
    MemoryId,
    PersonOptions,
    Principal,
    open_memory,
    to_time,
)
from mnemic.service.cli.terminal import command_line, plain, report, say, table, to_the_second, verbatim
from mnemic.service.cli.usage import spent_line
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.maintenance import MaintenanceRun

_TITLES = ("run", "started (UTC)", "changes", "ended", "actor")


async def maintenance(
    agent: Agent,
    now: Annotated[bool, typer.Option("--now", help="Do the due maintenance of this agent now.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count and record the changes.")] = False,
    actor: Principal = ADMINISTRATOR,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List the maintenance runs of an agent, newest first, or do one."""
    if now and dry_run:
        raise InvalidInputError("--now and --dry-run exclude each other")
    identity = Identity(agent_id=agent, actor_id=actor)
    async with open_memory() as memory:
        if not (now or dry_run):
            runs = await memory.admin.maintenance_runs(identity, limit=limit)
            report(runs, _table(runs), as_json=as_json, nothing="no maintenance yet")
            return
        run = await memory.admin.maintain(identity, dry_run=dry_run)
    report(run, [*_table([run]), *map(verbatim, spent_line(run.spent))], as_json=as_json)
    if any(run.counts.values()) and not (dry_run or as_json):
        say(f"to undo it: {command_line('undo', run=str(run.id), agent=agent)}")


def _table(runs: list[MaintenanceRun]) -> Iterator[RenderableType]:
    rows = [(run.id, to_the_second(run.started_at), _changes(run), _end(run), run.actor) for run in runs]
    yield from table(rows, *_TITLES)


def _changes(run: MaintenanceRun) -> list[str]:
    lines = [f"{name} {count}" for name, count in run.counts.items() if count]
    if not lines:
        lines.append("nothing was due")
    if run.is_dry_run:
        lines.insert(0, "dry run")
    lines += [f"failed: {step}" for step in run.failed]
    return lines


def _end(run: MaintenanceRun) -> str:
    if run.ended_at is None:
        return "not yet"
    return to_the_second(run.ended_at)


@dataclass(frozen=True, kw_only=True)
class NewValues:
    """Options with the new values of a memory."""

    pin: Annotated[bool | None, typer.Option("--pin/--no-pin", help="Whether maintenance leaves it alone.")] = None
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Its tags; repeatable.")] = None
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Remove its tags.")] = False
    importance: Annotated[int | None, typer.Option(help="1 trivial to 5 vital.")] = None
    until: Annotated[str | None, typer.Option(help="Day or time from which on it no longer holds.")] = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Mnemic.update`.

        Raises:
            InvalidInputError: if the tags are both set and removed.
        """
        if self.tag and self.no_tags:
            raise InvalidInputError("--tag and --no-tags exclude each other")
        tags = [] if self.no_tags else self.tag or None
        until = None if self.until is None else to_time("--until", self.until)
        return {"pinned": self.pin, "tags": tags, "importance": self.importance, "valid_until": until}


async def update(
    memory_id: MemoryId,
    person: PersonOptions,
    values: NewValues,
    as_json: AsJson = False,
) -> None:
    """Change pin, tags, importance or end of a memory of a person; its content stays."""
    arguments = values.arguments()
    async with open_memory() as memory:
        done = await memory.update(person.owner(), memory_id, **arguments)
    fields: dict[str, object] = {"pinned": done.pinned, "tags": done.tags or [], "importance": done.importance}
    if done.valid_until:
        fields["valid until"] = done.valid_until
    report(done, [plain(f"{name}: {value}") for name, value in fields.items()], as_json=as_json)


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (update, maintenance)
