"""The commands `undo`, `unshare`, `restore` and `as-of`, for the person concerned or an administrator."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import RenderableType

from mnemic.service.cli.options import (
    ActingOptions,
    AsJson,
    GoverningOptions,
    Groups,
    Yes,
    governing,
    to_moment,
    to_time,
)
from mnemic.service.cli.recall import Closed, list_memories
from mnemic.service.cli.terminal import command_line, exit_if_wrong, plain, report, say, show, table, verbatim, withheld
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError, RollbackRefusedError
from mnemic.state.governance import Rollback, RollbackOptions
from mnemic.state.identity import Identity

Key = Annotated[str, typer.Argument(metavar="SCOPE_KEY", help="Scope key such as user:ana or agent:guide.")]
At = Annotated[
    str, typer.Option("--at", metavar="TIME", help="Revision of the history, day (from its midnight on), or time.")
]
SkipErased = Annotated[bool, typer.Option("--skip-erased", help="Skip memories with erased contents.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="Undo later operations on the same memories too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the changes.")]

#: Columns of a memory for an administrator.
_BLIND = ("id", "kind", "category", "state", "tokens", "importance", "protected")
_ALONE = "names the scope key alone"
_TARGETS = "name one of: operations (`mnemic audit log` lists them), --refinement, --run, or --session with --since"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Options that select the operations to undo."""

    since: Annotated[str | None, typer.Option(help="Everything since this day or time in the session.")] = None
    refinement: Annotated[
        UUID | None, typer.Option(help="Everything in this refinement; `mnemic refinements` lists them.")
    ] = None
    run: Annotated[
        UUID | None, typer.Option(help="Everything in this maintenance run; `mnemic maintenance` lists them.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Options of a rollback: confirmation, dry run and output."""

    skip_erased: SkipErased = False
    yes: Yes = False
    dry_run: DryRun = False
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class RollbackFlags(Confirmation):
    """Options of a rollback that may undo later operations too."""

    cascade: Cascade = False

    def options(self) -> RollbackOptions:
        """Return the options of the rollback."""
        return RollbackOptions(cascade=self.cascade, skip_erased=self.skip_erased, dry_run=self.dry_run)


async def undo(
    acting: ActingOptions,
    target: Target,
    flags: RollbackFlags,
    ops: Annotated[
        list[UUID] | None,
        typer.Argument(metavar="OP", help="Operations, undone as one. Instead: --refinement, --run, or --since."),
    ] = None,
) -> None:
    """Undo operations, a part of a session, a refinement or a maintenance run; a rollback too."""
    session, since = acting.session, target.since
    targets = sum(map(bool, (ops, since, target.refinement, target.run)))
    if targets != 1 or (since and session is None) or (session is not None and not (since or acting.user)):
        raise InvalidInputError(_TARGETS)
    again = {"agent": acting.agent, "user": acting.user, "actor": acting.actor}
    if acting.user:
        again["session"] = session
    async with governing(acting) as (service, identity):
        if target.refinement:
            roll_back = partial(service.history.undo_refinement, identity, target.refinement)
        elif target.run:
            roll_back = partial(service.history.undo_run, identity, target.run)
        elif session is not None and since:
            roll_back = partial(service.history.undo_session, identity, session, to_time("--since", since))
        else:
            roll_back = partial(service.history.undo, identity, *(ops or ()))
        roll_back = partial(roll_back, cascade=flags.cascade, skip_erased=flags.skip_erased)
        await _carry_out(roll_back, flags.options(), again, flags)


async def unshare(
    acting: ActingOptions,
    flags: RollbackFlags,
    group: Groups = None,
    by: Annotated[str | None, typer.Option("--by", help="Author of the memories, for an administrator.")] = None,
) -> None:
    """Take back memories that a person shared with groups or all users; `mnemic memories --shared` lists them."""
    if (acting.user is None) == (by is None):
        raise InvalidInputError("name the person: with --user in their own name, or with --by as administrator")
    async with governing(acting, group, blind="takes back from every group") as (service, identity):
        nothing = f"{acting.user} shares nothing there: groups that --group does not name are left alone"
        author = identity
        if by is not None:
            author = Identity(agent_id=acting.agent, user_id=by)
            nothing = f"{by} shares nothing"
        sharing = service.privacy if isinstance(service, Mnemic) else service
        take_back = partial(sharing.unshare, author, cascade=flags.cascade, skip_erased=flags.skip_erased)
        again = {"agent": acting.agent, "actor": acting.actor}
        await _carry_out(take_back, flags.options(), again, flags, nothing)


async def restore(scope_key: Key, at: At, acting: ActingOptions, flags: Confirmation) -> None:
    """Restore the memories of a scope key as they were at a time."""
    options = RollbackOptions(skip_erased=flags.skip_erased, dry_run=flags.dry_run)
    again = {"agent": acting.agent, "user": acting.user, "actor": acting.actor, "session": acting.session}
    async with governing(acting, blind=_ALONE) as (service, identity):
        restore_then = partial(service.history.restore, identity, scope_key, to_moment("--at", at))
        await _carry_out(partial(restore_then, skip_erased=flags.skip_erased), options, again, flags)


async def _carry_out(
    roll_back: Callable[..., Awaitable[Rollback]],
    options: RollbackOptions,
    again: dict[str, str | None],
    flags: Confirmation,
    nothing: str = "nothing would change",
) -> None:
    """Show the dry run of a rollback, and carry it out if it is confirmed.

    Args:
        roll_back: the rollback; its argument `dry_run` is missing.
        options: the options of the rollback.
        again: the options of the command that undoes the rollback.
        flags: confirmation and output.
        nothing: message if nothing would change.

    Raises:
        InvalidInputError: if --yes and --dry-run are both set.
        RollbackRefusedError: if the confirmed rollback has conflicts.
        typer.Exit: if the rollback has conflicts or is not confirmed.
    """
    if flags.yes and options.dry_run:
        raise InvalidInputError("--yes and --dry-run exclude each other")
    done = planned = await roll_back(dry_run=True)
    is_refused = planned.refused_by(options) is not None
    if not flags.as_json:
        show(*_describe(planned))
        if planned.changes_nothing and not is_refused:
            say(nothing)
    obstacle: str | None = None
    if is_refused and not flags.yes:
        obstacle = "the rollback has conflicts"
    elif is_refused or not (options.dry_run or planned.changes_nothing):
        obstacle = withheld("Do it?", yes=flags.yes, as_json=flags.as_json)
        if obstacle is None:
            done = await _confirmed(roll_back, planned, as_json=flags.as_json)
    lines: list[RenderableType] = []
    if done.op_id:
        lines.append(verbatim(f"done; to undo it: {command_line('undo', done.op_id, **again)}"))
    report(done, lines, as_json=flags.as_json)
    exit_if_wrong(obstacle, f"nothing was changed: {obstacle}")


async def _confirmed(roll_back: Callable[..., Awaitable[Rollback]], planned: Rollback, *, as_json: bool) -> Rollback:
    try:
        return await roll_back(dry_run=False)
    except RollbackRefusedError:
        report(planned, (), as_json=as_json)  # the conflicts
        raise


def _describe(planned: Rollback) -> Iterator[RenderableType]:
    groups = {
        "to change": planned.changes,
        "with erased contents, which cannot come back (--skip-erased skips them)": planned.erased,
        "in conflict with an active duplicate: forget it, or undo the operation that made it": planned.twins,
        "protected, for an administrator alone to roll back": planned.protected,
    }
    for title, changes in groups.items():
        if changes:
            yield plain(f"memories {title}: {len(changes)}", "bold")
        rows: list[Sequence[object]] = []
        for change in changes:
            rows.append((change.id, change.kind, f"{change.before} → {change.after or '?'}", change.scope_key))
        yield from table(rows, "id", "kind", "state", "scope key")
    if planned.later:
        yield plain(f"later operations on the same memories (--cascade undoes them too): {len(planned.later)}", "bold")
        for later in planned.later:
            yield plain(f"{later.id} {later.reason}")
    if planned.relations:
        yield plain(f"relations to remove or restore: {planned.relations}", "bold")


async def as_of(
    scope_key: Key,
    at: At,
    person: GoverningOptions,
    group: Groups = None,
    closed: Closed = False,
    as_json: AsJson = False,
) -> None:
    """Show the memories of a scope key at a time: with contents for the person, else ids and states."""
    async with governing(person, group, blind=_ALONE) as (service, identity):
        listed: list[Any] = await service.history.as_of(identity, scope_key, to_moment("--at", at), with_closed=closed)
    lines: Iterable[RenderableType] = table([_blind_row(memory) for memory in listed], *_BLIND)
    if person.user:
        lines = list_memories(listed)
    report(listed, lines, as_json=as_json, nothing="no memories at that time")


def _blind_row(memory: Any) -> list[object]:
    return [getattr(memory, title) or "" for title in _BLIND]


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (undo, unshare, restore, as_of)
