"""`mnemic token`: a bearer token for the server."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from mnemic.policy.auth_tokens import new_pass, token_of
from mnemic.service.cli.options import AsJson
from mnemic.service.cli.output import emit, say
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings

#: Long enough for a deployment's own clients, short enough that a lost one ends by itself.
DAYS = 30

Holder = Annotated[str, typer.Option("--user", help="Whom its holder is to the server.")]
Agents = Annotated[
    list[str] | None, typer.Option("--agent", help="The only agents it may name; repeatable. None: all.")
]
Groups = Annotated[list[str] | None, typer.Option("--group", help="A group of that person; may be given repeatedly.")]
Days = Annotated[int, typer.Option("--days", help="Days it holds.")]


async def token(
    user: Holder, agent: Agents = None, group: Groups = None, days: Days = DAYS, as_json: AsJson = False
) -> None:
    """Print a bearer token for the server, signed with MNEMIC_SERVER_KEY; whoever has it is that person there."""
    key = Settings().server_key
    if key is None:
        raise ConfigurationError(
            "tokens are signed: set MNEMIC_SERVER_KEY to a secret of at least 16 characters, the server's own"
        )
    held = new_pass(user, tuple(agent or ()), tuple(group or ()), days=days, now=datetime.now(UTC))
    signed, ends = token_of(held, key.get_secret_value()), datetime.fromtimestamp(held.expires, UTC)
    if as_json:
        emit({"token": signed, "expires": ends})
    else:
        typer.echo(signed)
        say(f"it holds until {ends:%Y-%m-%d %H:%M} UTC")
