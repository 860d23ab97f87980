"""`mnemic undo`, `mnemic restore` and `mnemic as-of`: the Time Machine, of the person concerned or an administrator."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer

from mnemic.service.administration import Administration
from mnemic.service.cli.look import Closed, list_memories
from mnemic.service.cli.moments import to_moment, to_time
from mnemic.service.cli.options import Agent, AsJson, Concerned, Groups, Session, person
from mnemic.service.cli.output import columns, emit, plain, say, show
from mnemic.service.cli.rollbacks import Wanted, carry_out
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.rollback import PastMemory

Operations = Annotated[
    list[UUID] | None, typer.Argument(metavar="[OP]...", help="Operations, undone as one; or --session and --since.")
]
Key = Annotated[str, typer.Argument(metavar="SCOPE_KEY", help="Such as user:ana, group:harbor or agent:guide.")]
At = Annotated[str, typer.Option("--at", metavar="MOMENT", help="A seq of the history, or a time with its zone.")]
Since = Annotated[str | None, typer.Option("--since", help="All that was done in the session since; with its zone.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="Undo later operations on the same memories too.")]
SkipErased = Annotated[bool, typer.Option("--skip-erased", help="Leave as they are whose contents were erased.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")]


async def undo(
    agent: Agent,
    ops: Operations = None,
    user: Concerned = None,
    session: Session = None,
    since: Since = None,
    cascade: Cascade = False,
    skip_erased: SkipErased = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Undo operations, or all that was formed from a session since then. Undoes rollbacks too."""
    wanted = Wanted(cascade=cascade, skip_erased=skip_erased, yes=yes, dry_run=dry_run, as_json=as_json)
    moment = None if since is None else to_time(since, "--since")
    if bool(ops) == (moment is not None) or (moment and session is None) or (session and not (moment or user)):
        raise InvalidInputError("name operations (`mnemic audit log`), or a --session and --since when")
    switches = {"cascade": cascade, "skip_erased": skip_erased}
    async with _time_machine(agent, user, session) as (machine, whose):
        roll_back = (
            partial(machine.undo, whose, *ops, **switches)
            if ops
            else partial(machine.undo_session, whose, session, moment, **switches)
        )
        await carry_out(roll_back, wanted, _again(agent, user, session))


async def restore(
    scope_key: Key,
    at: At,
    agent: Agent,
    user: Concerned = None,
    session: Session = None,
    skip_erased: SkipErased = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give a scope key back the memories that it had at a moment."""
    wanted = Wanted(skip_erased=skip_erased, yes=yes, dry_run=dry_run, as_json=as_json)
    moment = to_moment(at, "--at")
    async with _time_machine(agent, user, session) as (machine, whose):
        roll_back = partial(machine.restore, whose, scope_key, moment, skip_erased=skip_erased)
        await carry_out(roll_back, wanted, _again(agent, user, session))


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
    if user is None:
        async with Administration.open() as administration:
            known = await administration.as_of(agent, scope_key, moment)
        _tell(known if closed else [one for one in known if one.state in ("active", "purged")], _list_blind, as_json)
    else:
        async with Mnemic.open() as memory:
            who = person(agent, user, group, session)
            _tell(await memory.as_of(who, scope_key, moment, with_closed=closed), list_memories, as_json)


@asynccontextmanager
async def _time_machine(agent: str, user: str | None, session: str | None) -> AsyncIterator[tuple[Any, Any]]:
    """Whose methods roll back, and what they are told of whose memories it is."""
    if user is None:
        async with Administration.open() as administration:
            yield administration, agent
    else:
        who = person(agent, user, None, session)
        async with Mnemic.open() as memory:
            yield memory, who


def _again(agent: str, user: str | None, session: str | None) -> list[str]:
    """The options of whoever undoes it again."""
    own = ["--user", user, *(["--session", session] if session else [])] if user else []
    return ["--agent", agent, *own]


def _tell(found: Sequence[Any], show_all: Any, as_json: bool) -> None:
    if as_json:
        emit(found)
    elif found:
        show_all(found)
    else:
        say("no memories at that moment")


def _list_blind(found: Sequence[PastMemory]) -> None:
    table = columns("kind", "category", "state", "tokens", "importance", "protected", "id")
    for one in found:
        marks = [str(one.tokens), str(one.importance), "yes" if one.protected else ""]
        table.add_row(one.kind, plain(one.category), one.state, *marks, plain(one.id, "dim"))
    show(table)
