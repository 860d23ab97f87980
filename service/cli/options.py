"""Options that several commands share, the identity and the view that they name, and moments as they are written."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from mnemic.memory.runtime.categories import OWNER
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import SUPERVISOR, Identity
from mnemic.state.settings import Settings

Agent = Annotated[str, typer.Option("--agent", help="The agent whose memory it is.")]
User = Annotated[str, typer.Option("--user", help="The person the agent talks with.")]
Concerned = Annotated[
    str | None,
    typer.Option("--user", help="The person concerned, on whose behalf; without it, as administrator and blind."),
]
Groups = Annotated[list[str] | None, typer.Option("--group", help="A group of that person; may be given repeatedly.")]
Session = Annotated[
    str | None, typer.Option("--session", help="A session, for what belongs to it alone; of operations, those in it.")
]
Principal = Annotated[str, typer.Option("--actor", help="Who acts, as the audit shall name them.")]
GoverningActor = Annotated[
    str | None,
    typer.Option("--actor", help="Without --user: who acts, as the audit shall name them; default: administrator."),
]
Limit = Annotated[int, typer.Option("--limit", help="Rows at most.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else on standard output.")]

#: Who acts as administrator, where nobody says so.
ADMINISTRATOR = "administrator"


def identity(
    agent: str,
    user: str,
    groups: Sequence[str] | None = None,
    session: str | None = None,
    role: str = SUPERVISOR,
) -> Identity:
    """The identity these options name.

    Raises:
        InvalidInputError: an id cannot be used.
    """
    return Identity(agent_id=agent, user_id=user, group_ids=tuple(groups or ()), session_id=session, role=role)


#: The person's own view: no agent's allowlist keeps anything from it.
person = partial(identity, role=OWNER)


def open_memory(**settings: Any) -> AbstractAsyncContextManager[Mnemic]:
    """Open Mnemic for one command, which does no background work: it would be stopped half-way."""
    return Mnemic.open(background=False, settings=Settings(**settings))


@asynccontextmanager
async def governing(
    agent: str,
    user: str | None,
    session: str | None,
    *,
    group: Sequence[str] | None = None,
    actor: str | None = None,
    blind: str = "",
) -> AsyncIterator[tuple[Mnemic | Administration, Identity]]:
    """What the person concerned may do, or without one an administrator, and whose memories to name to it.

    Args:
        agent: whose memory it is.
        user: the person.
        session: for the person, what belongs to it alone.
        group: as `session`.
        actor: who acts as administrator.
        blind: what an administrator does without a session and groups, which are refused then.

    Raises:
        InvalidInputError: what only a person has, without one; an actor beside a person; or an id cannot be used.
    """
    if user is not None:
        if actor is not None:
            raise InvalidInputError("--actor goes without --user: a person acts in their own name")
        who = person(agent, user, group, session)
        async with open_memory() as memory:
            yield memory, who
        return
    if blind and (session is not None or group):
        raise InvalidInputError(f"--session and --group go with --user: an administrator {blind}")
    async with Administration.open(actor=ADMINISTRATOR if actor is None else actor) as administration:
        yield administration, Identity(agent_id=agent)


def to_moment(written: str) -> Any:
    """A revision of the history, or a time; what is neither stays as it is, for whoever takes it to refuse."""
    for read in (int, datetime.fromisoformat):
        with suppress(ValueError):
            return read(written)
    return written
