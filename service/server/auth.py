"""Who may do what on LangGraph Server: `langgraph.json` names `auth`. A bearer token of ours says who somebody is."""

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from langgraph_sdk import Auth
from pydantic import SecretStr

from mnemic.policy.auth_tokens import TokenClaims, decode_token
from mnemic.service.server import ownership
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
_CALLER: Final[ContextVar[TokenClaims | None]] = ContextVar("mnemic_caller", default=None)

auth = Auth()


def caller() -> TokenClaims | None:
    """The claims of whose request is being answered; None in a run, in background work and in development."""
    return _CALLER.get()


def holder(authorization: str | None, key: SecretStr) -> TokenClaims | None:
    """The claims that a request's header carries; None where it has no valid token."""
    scheme, _, token = (authorization or "").partition(" ")
    return (
        decode_token(token.strip(), key.get_secret_value(), datetime.now(UTC)) if scheme.lower() == "bearer" else None
    )


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    """Who asks: the holder of a valid token, or `local` where no key is set."""
    if KEY is None:
        return {"identity": DEVELOPER, "is_authenticated": False}
    claims = holder(authorization, KEY)
    if claims is None:
        raise Auth.exceptions.HTTPException(401, UNKNOWN)
    _CALLER.set(claims)
    allowed = {"agents": list(claims.agents), "groups": list(claims.groups)}
    return {"identity": claims.user, "is_authenticated": True, **allowed}


#: What a stranger is told.
UNKNOWN: Final = "no valid token: send `Authorization: Bearer ...`, as `mnemic token` prints"


auth.on(ownership.refuse)
for _resource in (auth.on.threads, auth.on.assistants):
    _resource(ownership.own)
    _resource.create(ownership.create)
    _resource.update(ownership.update)
auth.on.threads.create_run(ownership.create_run)
# everybody may see and run any assistant; whose run it is the token says
auth.on.assistants.read(ownership.allow)
auth.on.assistants.search(ownership.allow)
auth.on.crons(ownership.own_cron)
auth.on.store(ownership.own_items)
