"""Who may do what on LangGraph Server: `langgraph.json` names `auth`. A bearer token of ours says who somebody is."""

import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from langgraph_sdk import Auth
from pydantic import SecretStr

from mnemic.nodes.authenticated import held_by
from mnemic.policy.passes import read_token
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings

_LOG = logging.getLogger("mnemic")
#: Whoever asks while no key is set, which binds nobody's runs to anybody.
DEVELOPER: Final = "local"
_OWNER: Final = "owner"


def _key() -> SecretStr | None:
    try:
        return Settings().server_key
    except ConfigurationError as error:
        raise SystemExit(f"mnemic: {error}") from None  # one line in place of the server's traceback


# read at once: a server whose settings do not fit does not start
_KEY: Final = _key()
if _KEY is None:
    _LOG.warning(
        "MNEMIC_SERVER_KEY is not set: everybody is let in and may name any user, which is for development only"
    )

#: The authenticated user whose request is answered in this context.
_CALLER: Final[ContextVar[str | None]] = ContextVar("mnemic_caller", default=None)

auth = Auth()


def caller() -> str | None:
    """The authenticated user whose request is being answered; None in a run, in background work and in development."""
    return _CALLER.get()


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    """Who asks: the holder of a valid token, or `local` where no key is set."""
    if _KEY is None:
        return {"identity": DEVELOPER, "is_authenticated": False}
    scheme, _, token = (authorization or "").partition(" ")
    held = read_token(token.strip(), _KEY.get_secret_value(), datetime.now(UTC))
    if scheme.lower() != "bearer" or held is None:
        raise Auth.exceptions.HTTPException(
            401, "no valid token: send `Authorization: Bearer ...`, as `mnemic token` prints"
        )
    _CALLER.set(held.user)
    allowed = {"agents": list(held.agents), "groups": list(held.groups)}
    return {"identity": held.user, "is_authenticated": True, **allowed}


@auth.on
async def refuse(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """What has no rule of its own is not allowed."""
    return False


@auth.on.threads
async def own_threads(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Threads and their runs belong to whoever made them, and are not there for anybody else."""
    return _owned(ctx, value)


@auth.on.crons
async def own_crons(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Crons likewise."""
    return _owned(ctx, value)


@auth.on.crons.create
async def new_cron(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """A cron's runs know their user and not the token, so whoever may not name every agent makes none."""
    return _owned_by_free(ctx, value)


@auth.on.crons.update
async def changed_cron(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Likewise."""
    return _owned_by_free(ctx, value)


@auth.on.assistants
async def own_assistants(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Assistants are changed by whoever made them."""
    return _owned(ctx, value)


@auth.on.assistants.read
async def any_assistant(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Everybody may see and run any assistant; whose run it is the token says."""


@auth.on.assistants.search
async def all_assistants(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Likewise."""


@auth.on.store
async def own_items(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Items of the store lie below their owner's id, whatever a request says."""
    # a label has no period; another id is not made of it, for `%` is quoted too
    own = ctx.user.identity.replace("%", "%25").replace(".", "%2E")
    namespace = tuple(value.get("namespace") or ())
    value["namespace"] = namespace if namespace[:1] == (own,) else (own, *namespace)


def _owned_by_free(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    if held_by(ctx.user, "agents"):
        raise Auth.exceptions.HTTPException(403, "this token names its agents, and a cron could name others")
    return _owned(ctx, value)


def _owned(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Writes the owner into what is made or changed, whatever the request says, and lets only the owner's through."""
    owner = {_OWNER: ctx.user.identity}
    if isinstance(value.get("metadata"), dict):
        value["metadata"].update(owner)  # in its place: the server goes on with this very dict
    else:
        value["metadata"] = {**owner}
    return {**owner}
