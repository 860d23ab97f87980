"""Options that several commands share, the identity that they name, and moments as they are written there."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from mnemic.policy.categories import OWNER
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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else on standard output.")]

#: Who acts as administrator, where nobody says so.
ADMINISTRATOR = "administrator"
#: A seq is an integer of 64 bits; a longer number is no time either, and refused as such.
MOST_DIGITS: Final = 19
#: A field of the identity, named after its option.
_FIELD = re.compile(r"^(?:(agent|user|group|session|actor)_ids?|(role))")
#: The one that a scope key names.
_OWNER = re.compile(r"^(?:user|group|session)_ids?")


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
    try:
        return Identity(agent_id=agent, user_id=user, group_ids=tuple(groups or ()), session_id=session, role=role)
    except InvalidInputError as error:
        raise InvalidInputError(_FIELD.sub(r"--\1\2", str(error))) from None


def owner_of(agent: str, key: str | None, actor: str) -> Identity:
    """The narrowest identity that this scope key belongs to, by default the agent's own, with who acts for it.

    Raises:
        InvalidInputError: it is no scope key, or an id cannot be used.
    """
    scope, owner = ("agent", agent) if key is None else split_scope_key(key)
    owned: dict[str, dict[str, Any]] = {
        "agent": {},
        "group": {"group_ids": (owner,)},
        "user": {"user_id": owner},
        "session": {"session_id": owner},
    }
    try:
        return Identity(agent_id=agent, actor_id=actor, **owned[scope])
    except InvalidInputError as error:
        raise InvalidInputError(_FIELD.sub(r"--\1\2", _OWNER.sub("SCOPE_KEY", str(error)))) from None


def refuse_blind(user: str | None, why: str, **of_a_person: Sequence[str] | None) -> None:
    """What only a person has is not passed over in silence where there is none.

    Args:
        user: the person, if there is one.
        why: what an administrator does without it.
        of_a_person: by option.

    Raises:
        InvalidInputError: it was given without a person.
    """
    for option, given in of_a_person.items():
        if user is None and given is not None and given != []:
            raise InvalidInputError(f"--{option} goes with --user: an administrator {why}")


def person(agent: str, user: str, groups: Sequence[str] | None = None, session: str | None = None) -> Identity:
    """The person's own view: no agent's allowlist keeps anything from it.

    Raises:
        InvalidInputError: an id cannot be used.
    """
    return identity(agent, user, groups, session).model_copy(update={"role": OWNER})


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
