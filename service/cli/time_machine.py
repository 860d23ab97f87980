"""`mnemic undo`, `mnemic restore` and `mnemic as-of`: the Time Machine, of the person concerned or an administrator."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer

from mnemic.service.cli.look import Closed, list_memories
from mnemic.service.cli.moments import to_moment, to_time
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
)
from mnemic.service.cli.output import columns, emit, plain, say, show
from mnemic.service.cli.rollbacks import Wanted, carry_out
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.rollback import PastMemory

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
    wanted = Wanted(cascade=cascade, skip_erased=skip_erased, yes=yes, dry_run=dry_run, as_json=as_json)
    moment = None if since is None else to_time(since, "--since")
    _require_one(ops, moment, refinement)
    if (moment and session is None) or (session is not None and not (moment or user)):
        raise InvalidInputError(_WHAT)
    who = _Who(agent, user, session, actor)
    switches = {"cascade": cascade, "skip_erased": skip_erased}
    async with who.time_machine() as (machine, whose):
        if refinement:
            roll_back = partial(machine.undo_refinement, whose, refinement, **switches)
        elif ops:
            roll_back = partial(machine.undo, whose, *ops, **switches)
        else:
            roll_back = partial(machine.undo_session, whose, session, moment, **switches)
        await carry_out(roll_back, wanted, who.again)


def _require_one(*ways: object) -> None:
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
    wanted = Wanted(skip_erased=skip_erased, yes=yes, dry_run=dry_run, as_json=as_json)
    moment = to_moment(at, "--at")
    refuse_blind(user, _ALONE, session=session)
    who = _Who(agent, user, session, actor)
    async with who.time_machine() as (machine, whose):
        roll_back = partial(machine.restore, whose, scope_key, moment, skip_erased=skip_erased)
        await carry_out(roll_back, wanted, who.again)


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
            _tell(await administration.as_of(agent, scope_key, moment, with_closed=closed), _list_blind, as_json)
    else:
        who = person(agent, user, group, session)
        async with Mnemic.open() as memory:
            _tell(await memory.as_of(who, scope_key, moment, with_closed=closed), list_memories, as_json)


@dataclass(frozen=True)
class _Who:
    """Who rolls back: the person concerned, or an administrator."""

    agent: str
    user: str | None
    session: str | None
    actor: str | None

    def __post_init__(self) -> None:
        if self.user is not None and self.actor is not None:
            raise InvalidInputError("--actor goes without --user: a person acts in their own name")

    @asynccontextmanager
    async def time_machine(self) -> AsyncIterator[tuple[Any, Any]]:
        """Whose methods roll back, and what they are told of whose memories it is."""
        if self.user is None:
            actor = ADMINISTRATOR if self.actor is None else self.actor
            async with Administration.open(actor=actor) as administration:
                yield administration, self.agent
        else:
            who = person(self.agent, self.user, None, self.session)
            async with Mnemic.open() as memory:
                yield memory, who

    @property
    def again(self) -> list[str]:
        """The options with which they undo it again."""
        named = {"--agent": self.agent, "--user": self.user, "--actor": self.actor}
        if self.user is not None:
            named["--session"] = self.session
        return [word for option, given in named.items() if given is not None for word in (option, given)]


def _tell(found: Sequence[Any], show_all: Any, as_json: bool) -> None:
    if as_json:
        emit(found)
    elif found:
        show_all(found)
    else:
        say("no memories at that moment")


def _list_blind(found: Sequence[PastMemory]) -> None:
    table = columns("kind", "category", "state", "tokens", "importance", "protected", "id")
    table.columns[-1].no_wrap = True  # an id is there to be copied
    for one in found:
        marks = [str(one.tokens), str(one.importance), "yes" if one.protected else ""]
        table.add_row(one.kind, plain(one.category), one.state, *marks, plain(one.id, "dim"))
    show(table)
