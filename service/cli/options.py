"""Options that several commands share, and the identity they make."""

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from mnemic.policy.categories import OWNER
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity

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
#: A field of the identity, named after its option.
_FIELD = re.compile(r"^(?:(agent|user|group|session)_ids?|(role))")


def identity(
    agent: str,
    user: str,
    groups: Sequence[str] | None = None,
    session: str | None = None,
    role: str = "supervisor",
) -> Identity:
    """The identity these options name.

    Raises:
        InvalidInputError: an id cannot be used.
    """
    try:
        return Identity(agent_id=agent, user_id=user, group_ids=tuple(groups or ()), session_id=session, role=role)
    except InvalidInputError as error:
        raise InvalidInputError(_FIELD.sub(r"--\1\2", str(error))) from None


def person(agent: str, user: str, groups: Sequence[str] | None = None, session: str | None = None) -> Identity:
    """The person's own view: no agent's allowlist keeps anything from it.

    Raises:
        InvalidInputError: an id cannot be used.
    """
    return identity(agent, user, groups, session).model_copy(update={"role": OWNER})
