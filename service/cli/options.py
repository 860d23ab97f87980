"""Options that several commands share, and the identity and the service that they select."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from mnemic.memory.runtime.categories import OWNER
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import SUPERVISOR, Identity
from mnemic.state.settings import Settings
from mnemic.state.times import local_time, to_zone

Agent = Annotated[str, typer.Option("--agent", help="Agent that owns the memory.")]
User = Annotated[str, typer.Option("--user", help="Person that the agent talks with.")]
Concerned = Annotated[
    str | None,
    typer.Option("--user", help="Person in whose name the command runs. Default: an administrator, without contents."),
]
Groups = Annotated[list[str] | None, typer.Option("--group", help="Group of that person; repeatable.")]
Session = Annotated[
    str | None, typer.Option("--session", help="Session, whose own memories and messages are included.")
]
Principal = Annotated[str, typer.Option("--actor", help="Name of the actor in the audit.")]
GoverningActor = Annotated[
    str | None,
    typer.Option("--actor", help="Name of the administrator in the audit, without --user. Default: administrator."),
]
MemoryId = Annotated[
    UUID, typer.Argument(metavar="ID", help="Id of a memory, from `mnemic query` or `mnemic memories`.")
]
Limit = Annotated[int, typer.Option("--limit", help="Maximum number of rows.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]

#: Times that an option takes.
_TIMES: Final = "a day such as 2026-03-02, or a time such as 2026-03-02T09:14:00Z"
#: Default name of an administrator.
ADMINISTRATOR: Final = "administrator"


@dataclass(frozen=True, kw_only=True)
class PersonOptions:
    """Options of a command that runs in the name of a person."""

    agent: Agent
    user: User
    group: Groups = None
    session: Session = None

    def identity(self, role: str = SUPERVISOR) -> Identity:
        """Return the identity of the person in a role.

        Raises:
            InvalidInputError: if an id cannot be used.
        """
        groups = tuple(self.group or ())
        return Identity(agent_id=self.agent, user_id=self.user, group_ids=groups, session_id=self.session, role=role)

    def owner(self) -> Identity:
        """Return the identity with the person's own view, which no allowlist restricts."""
        return self.identity(OWNER)


@dataclass(frozen=True, kw_only=True)
class GoverningOptions:
    """Options of a command for a person, or for an administrator without a user."""

    agent: Agent
    user: Concerned = None
    session: Session = None


@dataclass(frozen=True, kw_only=True)
class ActingOptions(GoverningOptions):
    """Options of a change by a person or an administrator."""

    actor: GoverningActor = None


def open_memory(**settings: Any) -> AbstractAsyncContextManager[Mnemic]:
    """Open Mnemic for one command, without background work: the end of the command would interrupt it."""
    return Mnemic.open(background=False, settings=Settings(**settings))


@asynccontextmanager
async def governing(
    options: GoverningOptions, groups: list[str] | None = None, *, blind: str = ""
) -> AsyncIterator[tuple[Mnemic | Administration, Identity]]:
    """Yield the service of a person, or of an administrator without a user, with the identity for its calls.

    Args:
        options: the options of the command.
        groups: the groups of the person.
        blind: scope of an administrator's command; if it is set, an administrator may name no session and no group.

    Raises:
        InvalidInputError: if an administrator names a session or a group, a person an actor, or an id cannot be used.
    """
    actor = options.actor if isinstance(options, ActingOptions) else None
    if options.user is not None:
        if actor is not None:
            raise InvalidInputError("--actor and --user exclude each other: a person acts in their own name")
        person = PersonOptions(agent=options.agent, user=options.user, group=groups, session=options.session)
        identity = person.owner()
        async with open_memory() as memory:
            yield memory, identity
        return
    if blind and (options.session is not None or groups):
        raise InvalidInputError(f"--session and --group need --user: an administrator {blind}")
    if actor is None:
        actor = ADMINISTRATOR
    async with Administration.open(actor=actor) as administration:
        yield administration, Identity(agent_id=options.agent)


def to_time(option: str, text: str) -> datetime:
    """Return a day, which begins at midnight, or a time; without an offset it is local in the settings' time zone.

    Raises:
        InvalidInputError: if the text is neither.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{option} must be {_TIMES}") from None
    return local_time(time, to_zone(Settings().timezone))


def to_moment(option: str, text: str) -> int | datetime:
    """Return a revision of the history, or a time as `to_time`.

    Raises:
        InvalidInputError: if the text is neither.
    """
    if text.isdecimal():
        return int(text)
    try:
        return to_time(option, text)
    except InvalidInputError:
        raise InvalidInputError(f"{option} must be a revision of the history such as 42, {_TIMES}") from None
