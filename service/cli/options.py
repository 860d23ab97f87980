"""Options that several commands share, the identity and the view that they name, and moments as they are written."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final

import typer

from mnemic.policy.categories import OWNER
from mnemic.service.governance.administration import Administration
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import SUPERVISOR, Identity, split_scope_key

Agent = Annotated[str, typer.Option("--agent", help="The agent whose memory it is.")]
User = Annotated[str, typer.Option("--user", help="The person the agent talks with.")]
Concerned = Annotated[
    str | None,
    typer.Option("--user", help="The person concerned, on whose behalf; without it, as administrator and blind."),
]
Groups = Annotated[list[str] | None, typer.Option("--group", help="A group of that person; may be given repeatedly.")]
Session = Annotated[str | None, typer.Option("--session", help="A session, for what belongs to it alone.")]
#: Of commands that are about operations.
OfSession = Annotated[
    str | None,
    typer.Option("--session", help="What was done in this session; with --user also on what belongs to it alone."),
]
Actor = Annotated[str, typer.Option("--actor", help="Who acts, as the audit shall name them.")]
GoverningActor = Annotated[
    str | None,
    typer.Option("--actor", help="Without --user: who acts, as the audit shall name them; default: administrator."),
]
Limit = Annotated[int, typer.Option("--limit", help="Rows at most.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else on standard output.")]

#: Who acts as administrator, where nobody says so.
ADMINISTRATOR = "administrator"
#: A seq is an integer of 64 bits; a longer number is no time either, and refused as such.
MOST_DIGITS: Final = 19
#: A field of the identity, named after its option.
_FIELD = re.compile(r"^(agent|user|group|session|actor|role)(?:_ids?)?")


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
    return _identity(agent_id=agent, user_id=user, group_ids=tuple(groups or ()), session_id=session, role=role)


#: The person's own view: no agent's allowlist keeps anything from it.
person = partial(identity, role=OWNER)


def owner_of(agent: str, key: str | None, actor: str) -> Identity:
    """The narrowest identity that this scope key belongs to, by default the agent's own, with who acts for it.

    Raises:
        InvalidInputError: it is no scope key, or an id cannot be used.
    """
    scope, owner = ("agent", agent) if key is None else split_scope_key(key)
    if scope == "agent":
        return _identity(agent_id=agent, actor_id=actor)
    owned = {"group_ids": (owner,)} if scope == "group" else {f"{scope}_id": owner}
    return _identity(scope, agent_id=agent, actor_id=actor, **owned)


def _identity(scope: str = "", /, **fields: Any) -> Identity:
    """An identity whose errors name an option, or the scope key if the id comes from one of this scope."""
    try:
        return Identity(**fields)
    except InvalidInputError as error:
        named = _FIELD.sub(lambda field: "SCOPE_KEY" if field[1] == scope else f"--{field[1]}", str(error))
        raise InvalidInputError(named) from None


@asynccontextmanager
async def governing(
    agent: str,
    user: str | None,
    session: str | None,
    *,
    group: Sequence[str] | None = None,
    actor: str | None = None,
    blind: str = "",
) -> AsyncIterator[tuple[Mnemic | Administration, Any]]:
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
        async with Mnemic.open() as memory:
            yield memory, who
        return
    for option, given in (("session", session), ("group", group or None)):
        if blind and given is not None:
            raise InvalidInputError(f"--{option} goes with --user: an administrator {blind}")
    async with Administration.open(actor=ADMINISTRATOR if actor is None else actor) as administration:
        yield administration, agent


def to_time(written: str, option: str) -> datetime:
    """A time with its zone.

    Raises:
        InvalidInputError: it is none, or names no zone; the message says what to write.
    """
    with suppress(ValueError):
        moment = datetime.fromisoformat(written)
        if moment.tzinfo is not None:
            return moment
    raise InvalidInputError(f"{option}: write a time with its zone, such as 2026-03-02T09:14:00Z")


def to_moment(written: str, option: str) -> int | datetime:
    """A seq of the history, or a time with its zone.

    Raises:
        InvalidInputError: it is neither; the message says what to write.
    """
    if written.isascii() and written.isdigit() and len(written) < MOST_DIGITS:
        return int(written)
    return to_time(written, option)
