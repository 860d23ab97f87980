"""Who may do what on LangGraph Server: `langgraph.json` names `auth`. A bearer token of ours says who somebody is.

Whose what is, its metadata say: which user's and which agent's; the server's filters go by them.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError
from pydantic import SecretStr

from mnemic.memory.runtime.identity import bind_identity, require_own_scope, token_claim
from mnemic.service.server.auth_tokens import TokenClaims, decode_token
from mnemic.state.errors import ConfigurationError, InvalidInputError, MnemicError
from mnemic.state.identity import Identity, require_known_fields, scope_key, to_identity
from mnemic.state.settings import Settings
from mnemic.state.times import load_zones

OWNER: Final = "owner"
AGENT: Final = "agent_id"
#: The agent of a thread while this module writes it; whatever a client writes there does not count.
_WRITTEN: Final[ContextVar[str | None]] = ContextVar("mnemic_written_agent", default=None)
#: What a stranger is told.
UNKNOWN: Final = "no valid token: send `Authorization: Bearer ...`, as `mnemic token` prints"


try:  # read at once: a server whose settings do not fit does not start
    KEY: Final = Settings().server_key
except ConfigurationError as error:
    raise SystemExit(f"mnemic: {error}") from None  # one line in place of the server's traceback
load_zones()  # half a second now; afterwards an identity's time zone is found without a file

#: The claims of whose request is being answered; None in a run, in background work and in development.
CALLER: Final[ContextVar[TokenClaims | None]] = ContextVar("mnemic_caller", default=None)

#: The caller of a server without a key: an identity that binds no run to any user.
LOCAL: Final[dict[str, Any]] = {"identity": "local", "is_authenticated": False}
#: Graphs that work on one scope key: the one in their input, else the agent's own.
_OF_ONE_SCOPE: Final = ("refinement", "consolidation", "maintenance")

auth = Auth()


def holder(authorization: str | None, key: SecretStr) -> TokenClaims | None:
    """The claims that a request's header carries; None where it has no valid token."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    return decode_token(token.strip(), key.get_secret_value(), datetime.now(UTC))


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    """Who asks: the holder of a valid token, or `local` where no key is set."""
    if KEY is None:
        return LOCAL
    claims = holder(authorization, KEY)
    if claims is None:
        raise Auth.exceptions.HTTPException(401, UNKNOWN)
    CALLER.set(claims)
    allowed = {"agents": list(claims.agents), "groups": list(claims.groups)}
    return {"identity": claims.user, "is_authenticated": True, **allowed}


async def refuse(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """What has no rule of its own is not allowed."""
    return False


async def allow(ctx: Auth.types.AuthContext, value: Any) -> None:
    """It is anybody's."""


async def own(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Writes the owner into what is made or changed, and lets only theirs through, of the agents that a token names."""
    if not isinstance(value.get("metadata"), dict):
        value["metadata"] = {}
    value["metadata"][OWNER] = ctx.user.identity  # in its place: the server goes on with this very dict
    theirs: list[Any] = [{AGENT: agent} for agent in token_claim(ctx.user, "agents")]
    if len(theirs) > 1:  # the server wants two for an `or`
        theirs = [{"$or": theirs}]
    return {OWNER: ctx.user.identity, **(theirs[0] if theirs else {})}


async def create(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """What a token bound to agents makes is one of theirs: the only one, or which its metadata name.

    Raises:
        HTTPException: it has to be said which.
    """
    is_copy = "metadata" not in value  # with that of what is copied
    filters, agents = await own(ctx, value), token_claim(ctx.user, "agents")
    if agents and not is_copy and value["metadata"].get(AGENT) not in agents:
        if len(agents) > 1:
            raise Auth.exceptions.HTTPException(403, f"this token names several agents: give one as metadata.{AGENT}")
        value["metadata"][AGENT] = agents[0]
    return filters


async def update(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Whose agent's something is stays as it is."""
    filters = await own(ctx, value)
    value["metadata"].pop(AGENT, None)
    if agent := _WRITTEN.get():
        value["metadata"][AGENT] = agent
    return filters


async def create_run(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """A run is of one agent, which the request or its assistant names, and so is its thread from its first run on.

    Raises:
        HTTPException: it names no agent, one that the token does not name, or another than the thread's; or its context
            has a field that an identity does not have.
    """
    user, filters = ctx.user, await own(ctx, value)
    await _require_known_context(value)
    if KEY is None:
        # the scheduler of crons makes a user of the caller's name, who would pass for authenticated in the run
        value["kwargs"]["config"]["configurable"]["langgraph_auth_user"] = LOCAL
        return filters
    agent, agents = await _agent(value), token_claim(user, "agents")
    if agents and agent not in agents:
        raise Auth.exceptions.HTTPException(403, f"{AGENT}: the token does not name this agent")
    if value["thread_id"]:
        await _first_run(str(value["thread_id"]), agent)
    value["metadata"][AGENT] = agent
    value["kwargs"]["context"] = {**(value["kwargs"].get("context") or {}), AGENT: agent}  # what was checked, runs
    return {OWNER: user.identity, AGENT: agent}


async def own_cron(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """A cron's runs know their user and not the token, so whoever may not name every agent has none.

    Raises:
        HTTPException: the token names its agents.
    """
    if token_claim(ctx.user, "agents"):
        raise Auth.exceptions.HTTPException(403, "this token names its agents, and crons are of any agent")
    return await own(ctx, value)


async def create_cron(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Make a cron whose runs have an identity that they may use; the errors of its runs would reach no client.

    Raises:
        HTTPException: a run with this context and input would be refused, with the reason.
    """
    from langgraph_api.auth.custom import SimpleUser  # the server's own, which is imported in a server alone

    filters, payload = await own_cron(ctx, value), value["payload"]
    assistant = await _assistant(payload["assistant_id"])
    context = payload.get("context") or assistant["context"]
    try:
        # as the scheduler runs it: the user by name, without the groups of a token
        user = None if KEY is None else SimpleUser(ctx.user.identity)
        identity = bind_identity(to_identity(context), user, str(value["thread_id"]) if value["thread_id"] else None)
        if assistant["graph_id"] in _OF_ONE_SCOPE:
            _require_scope(identity, payload.get("input") or {})
    except MnemicError as error:
        raise Auth.exceptions.HTTPException(422, f"the runs of this cron would fail: {error}") from None
    return filters


def _require_scope(identity: Identity, given: Mapping[str, Any]) -> None:
    key = given.get("scope_key") or scope_key("agent", identity.agent_id)
    if key not in identity.scope_keys:
        raise InvalidInputError(f"scope_key: none of this identity's; it has {', '.join(identity.scope_keys)}")
    require_own_scope(identity, key)


async def own_items(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Items of the store lie below their owner's id, and with a token bound to agents below one of these.

    Raises:
        HTTPException: it has to be said below which.
    """
    requested: tuple[str, ...] = tuple(value.get("namespace") or ())
    owner, agents = _label(ctx.user.identity), token_claim(ctx.user, "agents")
    roots: list[tuple[str, ...]] = [(owner, f"agent:{_label(agent)}") for agent in agents] or [(owner,)]
    lies_below = any(requested[: len(root)] == root for root in roots)
    if not lies_below and len(roots) > 1:
        raise Auth.exceptions.HTTPException(403, f"this token names several agents: begin the namespace with {roots}")
    value["namespace"] = requested if lies_below else (*roots[0], *requested)


async def _require_known_context(value: Any) -> None:
    """Refuse a misspelt field of the context of a graph of ours, which the server would drop without an error.

    Keys of `configurable`, which the server copies into the context, are not looked at: they may have other uses.
    """
    configurable: dict[str, Any] = (value["kwargs"].get("config") or {}).get("configurable") or {}
    context = value["kwargs"].get("context") or {}
    if "__context_provided__" not in configurable:
        return
    try:
        require_known_fields(context)
    except InvalidInputError as error:
        schemas = await get_client(url=None, api_key=None).assistants.get_schemas(str(value["assistant_id"]))
        if (schemas.get("context_schema") or {}).get("title") == Identity.__name__:
            raise Auth.exceptions.HTTPException(422, str(error)) from None


async def _agent(value: Any) -> str:
    named = (value["kwargs"].get("context") or {}).get(AGENT)
    if named is None:
        assistant = await _assistant(value["assistant_id"])
        preset: Any = assistant["context"]
        named = (preset or {}).get(AGENT)
    if not isinstance(named, str):
        raise Auth.exceptions.HTTPException(
            422, f"{AGENT}: name it in the run's context, or run an assistant that does"
        )
    return named


async def _assistant(assistant_id: object) -> Any:
    from langgraph_api.graph import get_assistant_id

    try:
        return await get_client(url=None, api_key=None).assistants.get(get_assistant_id(str(assistant_id)))
    except NotFoundError:
        raise Auth.exceptions.HTTPException(404, "there is no such assistant") from None


async def _first_run(thread_id: str, agent: str) -> None:
    """Writes whose agent's a thread is, as its caller, who may not see it at all."""
    threads = get_client(url=None, api_key=None).threads  # this server itself
    for found in await threads.search(ids=[thread_id], select=["metadata"], limit=1):
        written = (found["metadata"] or {}).get(AGENT)
        if written is None:
            token = _WRITTEN.set(agent)
            try:
                await threads.update(thread_id, metadata={})
            finally:
                _WRITTEN.reset(token)
        elif written != agent:
            raise Auth.exceptions.HTTPException(409, "the thread is another agent's: begin a new one")


def _label(name: str) -> str:
    """As one label: it has no period, `*` would stand for any, and another name is not made of it."""
    return name.replace("%", "%25").replace(".", "%2E").replace("*", "%2A")


auth.on(refuse)
for _resource in (auth.on.threads, auth.on.assistants):
    _resource(own)
    _resource.create(create)
    _resource.update(update)
auth.on.threads.create_run(create_run)
# everybody may see and run any assistant; whose run it is the token says
auth.on.assistants.read(allow)
auth.on.assistants.search(allow)
auth.on.crons(own_cron)
auth.on.crons.create(create_cron)
auth.on.store(own_items)
