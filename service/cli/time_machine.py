"""`mnemic undo`, `mnemic restore` and `mnemic as-of`: the Time Machine, of the person concerned or an administrator."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import RenderableType

from mnemic.service.cli.options import (
    Agent,
    AsJson,
    Concerned,
    GoverningActor,
    Groups,
    Session,
    Yes,
    governing,
    to_moment,
)
from mnemic.service.cli.recall import Closed, list_memories
from mnemic.service.cli.terminal import command_line, exit_if_wrong, plain, report, say, show, table, verbatim, withheld
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError, RollbackRefusedError
from mnemic.state.governance import Rollback, RollbackOptions

Key = Annotated[str, typer.Argument(metavar="SCOPE_KEY", help="Such as user:ana, group:harbor or agent:guide.")]
At = Annotated[str, typer.Option("--at", metavar="MOMENT", help="A revision of the history, or a time with its zone.")]
SkipErased = Annotated[bool, typer.Option("--skip-erased", help="Leave as they are whose contents were erased.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="Undo later operations on the same memories too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")]

#: What an administrator sees of a memory.
_BLIND = ("id", "kind", "category", "state", "tokens", "importance", "protected")
_ALONE = "names the scope key alone"
_WHAT = "name operations (`mnemic audit log`), a --refinement, a --run, or a --session and --since when: one of them"


async def undo(
    agent: Agent,
    ops: Annotated[
        list[UUID] | None,
        typer.Argument(
            metavar="OP", help="Operations, undone as one; or --refinement, --run, or --session and --since."
        ),
    ] = None,
    user: Concerned = None,
    session: Session = None,
    since: Annotated[str | None, typer.Option(help="All that was done in the session since; with its zone.")] = None,
    refinement: Annotated[
        UUID | None, typer.Option(help="All that one refinement did; `mnemic refinements` lists them.")
    ] = None,
    run: Annotated[
        UUID | None, typer.Option(help="All that one run of maintenance changed; `mnemic maintenance` lists them.")
    ] = None,
    actor: GoverningActor = None,
    cascade: Cascade = False,
    skip_erased: SkipErased = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Undo operations, a session since a moment, a refinement, or a run of maintenance; rollbacks too."""
    ways = sum(bool(way) for way in (ops, since, refinement, run))
    if ways != 1 or (since and session is None) or (session is not None and not (since or user)):
        raise InvalidInputError(_WHAT)
    options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
    again = {"agent": agent, "user": user, "actor": actor, "session": session if user else None}
    async with governing(agent, user, session, actor=actor) as (machine, whose):
        if refinement:
            roll_back = partial(machine.history.undo_refinement, whose, refinement)
        elif run:
            roll_back = partial(machine.history.undo_run, whose, run)
        elif session is not None and since:
            roll_back = partial(machine.history.undo_session, whose, session, to_moment(since))
        else:
            roll_back = partial(machine.history.undo, whose, *(ops or ()))
        roll_back = partial(roll_back, cascade=cascade, skip_erased=skip_erased)
        await _carry_out(roll_back, options, again, yes=yes, as_json=as_json)


async def unshare(
    agent: Agent,
    user: Concerned = None,
    group: Groups = None,
    by: Annotated[str | None, typer.Option("--by", help="As administrator: whose words to take back.")] = None,
    actor: GoverningActor = None,
    cascade: Cascade = False,
    skip_erased: SkipErased = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take back what one person brought into groups or the whole agent; `memories` shows what it says."""
    if (user is None) == (by is None):
        raise InvalidInputError("name the person: with --user in their own name, or with --by as administrator")
    options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
    async with governing(agent, user, None, group=group, actor=actor, blind="takes back from every group") as acting:
        machine, whose = acting
        who = whose.model_copy(update={"user_id": by}) if by else whose
        sharing = machine.privacy if isinstance(machine, Mnemic) else machine
        take_back = partial(sharing.unshare, who, cascade=cascade, skip_erased=skip_erased)
        nothing = f"nothing that {user or by} brought is shared there"
        nothing += "" if by else ": groups that --group does not name are left alone"
        again = {"agent": agent, "actor": actor}
        await _carry_out(take_back, options, again, nothing, yes=yes, as_json=as_json)


async def restore(
    scope_key: Key,
    at: At,
    agent: Agent,
    user: Concerned = None,
    session: Session = None,
    actor: GoverningActor = None,
    skip_erased: SkipErased = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give a scope key back the memories that it had at a moment."""
    options = RollbackOptions(skip_erased=skip_erased, dry_run=dry_run)
    again = {"agent": agent, "user": user, "actor": actor, "session": session}
    async with governing(agent, user, session, actor=actor, blind=_ALONE) as (machine, whose):
        roll_back = partial(machine.history.restore, whose, scope_key, to_moment(at), skip_erased=skip_erased)
        await _carry_out(roll_back, options, again, yes=yes, as_json=as_json)


async def _carry_out(
    roll_back: Callable[..., Awaitable[Rollback]],
    options: RollbackOptions,
    again: dict[str, str | None],
    nothing: str = "nothing would change",
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Shows the dry run; does it where that was said beforehand, or is said now at a terminal.

    Args:
        roll_back: one undo or restore, all of it given but whether to do it.
        options: how it is to be done.
        again: the options with which `mnemic undo` undoes it again.
        nothing: what is said where there is nothing to do.
        yes: it was said beforehand.
        as_json: print the result as JSON.

    Raises:
        RollbackRefusedError: it was to be done, and something stands against it.
        typer.Exit: something stands against it, or nobody said that it is to be done.
    """
    if yes and options.dry_run:
        raise InvalidInputError("--yes does it and --dry-run does not: say one of them")
    done = planned = await roll_back(dry_run=True)
    is_refused = planned.refused_by(options) is not None
    if not as_json:
        show(*_describe(planned))
        if planned.changes_nothing and not is_refused:
            say(nothing)
    is_wanted = is_refused or not (options.dry_run or planned.changes_nothing)
    obstacle = "as things stand it is refused" if is_refused and not yes else None
    if is_wanted and obstacle is None:
        obstacle = withheld("Do it?", yes=yes, as_json=as_json)
    if is_wanted and obstacle is None:
        try:
            done = await roll_back(dry_run=False)
        except RollbackRefusedError:
            report(planned, (), as_json=as_json)  # what stands against it
            raise
    to_undo_it = [verbatim(f"done; to undo it: {command_line('undo', done.op_id, **again)}")] if done.op_id else []
    report(done, to_undo_it, as_json=as_json)
    exit_if_wrong(obstacle, f"nothing was changed: {obstacle}")


def _describe(planned: Rollback) -> Iterator[RenderableType]:
    groups = {
        "that would change": planned.changes,
        "that cannot come back, for what was said is erased (--skip-erased leaves it so)": planned.erased,
        "living today in the way: to be forgotten first, or what made them undone": planned.twins,
        "protected, for an administrator alone to roll back": planned.protected,
    }
    for what, changes in groups.items():
        if changes:
            yield plain(f"memories {what}: {len(changes)}", "bold")
        rows = ((each.id, each.kind, f"{each.before} → {each.after or '?'}", each.scope_key) for each in changes)
        yield from table(rows, "id", "kind", "state", "scope key")
    if planned.later:
        yield plain(f"later operations on the same memories (--cascade undoes them too): {len(planned.later)}", "bold")
        yield from (plain(f"{later.id} {later.reason}") for later in planned.later)
    if planned.relations:
        yield plain(f"relations that would go or come back: {planned.relations}", "bold")


async def as_of(
    scope_key: Key,
    at: At,
    agent: Agent,
    user: Concerned = None,
    group: Groups = None,
    session: Session = None,
    closed: Closed = False,
    as_json: AsJson = False,
) -> None:
    """Show the memories that a scope key had at a moment: a person's own in words, else ids and states."""
    async with governing(agent, user, session, group=group, blind=_ALONE) as (machine, whose):
        found: list[Any] = await machine.history.as_of(whose, scope_key, to_moment(at), with_closed=closed)
    rows = ([getattr(item, title) or "" for title in _BLIND] for item in found)
    lines = list_memories(found) if user else table(rows, *_BLIND)
    report(found, lines, as_json=as_json, nothing="no memories at that moment")
