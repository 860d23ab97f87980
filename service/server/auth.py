"""Who may do what on LangGraph Server: `langgraph.json` names `auth`. A bearer token of ours says who somebody is."""

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from langgraph_sdk import Auth
from pydantic import SecretStr

from mnemic.operations.run.authenticated import held_by
from mnemic.policy.auth_tokens import Pass, read_token
from mnemic.service.server.app import ownership
from mnemic.state.errors import ConfigurationError
from mnemic.state.settings import Settings

#: Whoever asks while no key is set, which binds nobody's runs to anybody.
DEVELOPER: Final = "local"


def _key() -> SecretStr | None:
    try:
        return Settings().server_key
    except ConfigurationError as error:
        raise SystemExit(f"mnemic: {error}") from None  # one line in place of the server's traceback


# read at once: a server whose settings do not fit does not start
KEY: Final = _key()

#: Whose request is answered in this context.
_CALLER: Final[ContextVar[Pass | None]] = ContextVar("mnemic_caller", default=None)

auth = Auth()


def caller() -> Pass | None:
    """The pass of whose request is being answered; None in a run, in background work and in development."""
    return _CALLER.get()


def holder(authorization: str | None, key: SecretStr) -> Pass | None:
    """The pass that a request's header carries; None where it has no valid token."""
    scheme, _, token = (authorization or "").partition(" ")
    return read_token(token.strip(), key.get_secret_value(), datetime.now(UTC)) if scheme.lower() == "bearer" else None


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    """Who asks: the holder of a valid token, or `local` where no key is set."""
    if KEY is None:
        return {"identity": DEVELOPER, "is_authenticated": False}
    held = holder(authorization, KEY)
    if held is None:
        raise Auth.exceptions.HTTPException(401, UNKNOWN)
    _CALLER.set(held)
    allowed = {"agents": list(held.agents), "groups": list(held.groups)}
    return {"identity": held.user, "is_authenticated": True, **allowed}


#: What a stranger is told.
UNKNOWN: Final = "no valid token: send `Authorization: Bearer ...`, as `mnemic token` prints"


@auth.on
async def refuse(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """What has no rule of its own is not allowed."""
    return False


@auth.on.threads
async def own_threads(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Threads and their runs belong to whoever made them, and are not there for anybody else."""
    return ownership.owned(ctx.user, value)


@auth.on.threads.create
async def new_thread(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """A thread that a token bound to agents makes is one of theirs."""
    return ownership.made(ctx.user, value)


@auth.on.threads.update
async def changed_thread(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Whose a thread is does not change."""
    return ownership.changed(ctx.user, value)


@auth.on.threads.create_run
async def new_run(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """A thread's runs are all of one agent."""
    return await ownership.run(ctx.user, value)


@auth.on.crons
async def own_crons(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """A cron's runs know their user and not the token, so whoever may not name every agent has none."""
    if held_by(ctx.user, "agents"):
        raise Auth.exceptions.HTTPException(403, "this token names its agents, and crons are of any agent")
    return ownership.owned(ctx.user, value)


@auth.on.assistants
async def own_assistants(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Assistants are changed by whoever made them."""
    return ownership.owned(ctx.user, value)


@auth.on.assistants.create
async def new_assistant(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Likewise as a new thread."""
    return ownership.made(ctx.user, value)


@auth.on.assistants.update
async def changed_assistant(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Likewise as a changed thread."""
    return ownership.changed(ctx.user, value)


@auth.on.assistants.read
async def any_assistant(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Everybody may see and run any assistant; whose run it is the token says."""


@auth.on.assistants.search
async def all_assistants(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Likewise."""


@auth.on.store
async def own_items(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Items of the store lie below their owner's id, whatever a request says."""
    value["namespace"] = ownership.namespace(ctx.user, tuple(value.get("namespace") or ()))
