"""`mnemic undo`, `mnemic restore` and `mnemic as-of`: the Time Machine, of the person concerned or an administrator."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer

from mnemic.service.cli.look import Closed, list_memories
from mnemic.service.cli.options import (
    ADMINISTRATOR,
    Agent,
    AsJson,
    Concerned,
    GoverningActor,
    Groups,
    OfSession,
    Session,
    person,
    refuse_blind,
    to_moment,
    to_time,
)
from mnemic.service.cli.rollbacks import Request, carry_out
from mnemic.service.cli.terminal import columns, plain, report, show
from mnemic.service.governance.administration import Administration
from mnemic.service.governance.time_machine import TimeMachine
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.governance import PastMemory, RollbackOptions

Operations = Annotated[
    list[UUID] | None,
    typer.Argument(metavar="OP", help="Operations, undone as one; or --refinement; or --session and --since."),
]
Refinement = Annotated[
    UUID | None, typer.Option("--refinement", help="All that one refinement did; `mnemic refinements` lists them.")
]
Key = Annotated[str, typer.Argument(metavar="SCOPE_KEY", help="Such as user:ana, group:harbor or agent:guide.")]
At = Annotated[str, typer.Option("--at", metavar="MOMENT", help="A seq of the history, or a time with its zone.")]
Since = Annotated[str | None, typer.Option("--since", help="All that was done in the session since; with its zone.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="Undo later operations on the same memories too.")]
SkipErased = Annotated[bool, typer.Option("--skip-erased", help="Leave as they are whose contents were erased.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")]

_ALONE = "names the scope key alone"
_WHAT = "name operations (`mnemic audit log`), a --refinement, or a --session and --since when"


async def undo(
    agent: Agent,
    ops: Operations = None,
    user: Concerned = None,
    session: OfSession = None,
    since: Since = None,
    refinement: Refinement = None,
    actor: GoverningActor = None,
    cascade: Cascade = False,
    skip_erased: SkipErased = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Undo operations, rollbacks too, or all that agents did in a session since a moment, or a refinement."""
    options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
    request = Request(options=options, yes=yes, as_json=as_json)
    moment = None if since is None else to_time(since, "--since")
    _require_one_way(ops, moment, refinement)
    if session is not None and not (moment or user):
        raise InvalidInputError(_WHAT)
    undo_with = _options(agent, user, actor, session)
    async with time_machine(agent, user, session, actor) as (machine, whose):
        switches = {"cascade": cascade, "skip_erased": skip_erased}
        if refinement:
            roll_back = partial(machine.undo_refinement, whose, refinement, **switches)
        elif ops:
            roll_back = partial(machine.undo, whose, *ops, **switches)
        elif session is not None and moment is not None:
            roll_back = partial(machine.undo_session, whose, session, moment, **switches)
        else:
            raise InvalidInputError(_WHAT)
        await carry_out(roll_back, request, undo_with)


def _require_one_way(*ways: object) -> None:
    named = sum(bool(way) for way in ways)
    if named != 1:
        raise InvalidInputError(f"only one of them: {_WHAT}" if named else _WHAT)


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
    request = Request(options=options, yes=yes, as_json=as_json)
    moment = to_moment(at, "--at")
    refuse_blind(user, _ALONE, session=session)
    undo_with = _options(agent, user, actor, session)
    async with time_machine(agent, user, session, actor) as (machine, whose):
        roll_back = partial(machine.restore, whose, scope_key, moment, skip_erased=skip_erased)
        await carry_out(roll_back, request, undo_with)


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
    moment = to_moment(at, "--at")
    refuse_blind(user, _ALONE, session=session, group=group)
    if user is None:
        async with Administration.open() as administration:
            _print(await administration.as_of(agent, scope_key, moment, with_closed=closed), _list_blind, as_json)
    else:
        who = person(agent, user, group, session)
        async with Mnemic.open() as memory:
            _print(await memory.as_of(who, scope_key, moment, with_closed=closed), list_memories, as_json)


@asynccontextmanager
async def time_machine(
    agent: str, user: str | None, session: str | None, actor: str | None = None
) -> AsyncIterator[tuple[TimeMachine[Any], Any]]:
    """The Time Machine of the person concerned, or of an administrator, and whose memories to name to it.

    Raises:
        InvalidInputError: an actor beside a person.
    """
    if user is None:
        async with Administration.open(actor=ADMINISTRATOR if actor is None else actor) as administration:
            yield administration, agent
        return
    if actor is not None:
        raise InvalidInputError("--actor goes without --user: a person acts in their own name")
    who = person(agent, user, session=session)
    async with Mnemic.open() as memory:
        yield memory, who


def _options(agent: str, user: str | None, actor: str | None, session: str | None) -> list[str]:
    """The options with which it is undone again."""
    named = {"--agent": agent, "--user": user, "--actor": actor, "--session": session if user else None}
    return [word for option, given in named.items() if given is not None for word in (option, given)]


def _print(found: Sequence[Any], show_all: Any, as_json: bool) -> None:
    report(found, show_all, as_json=as_json, nothing="no memories at that moment")


def _list_blind(found: Sequence[PastMemory]) -> None:
    table = columns("kind", "category", "state", "tokens", "importance", "protected", "id")
    table.columns[-1].no_wrap = True  # an id is there to be copied
    for memory in found:
        marks = [str(memory.tokens), str(memory.importance), "yes" if memory.protected else ""]
        table.add_row(memory.kind, plain(memory.category), memory.state, *marks, plain(memory.id, "dim"))
    show(table)
