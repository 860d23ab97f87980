"""Authentication by bearer tokens and authorization of LangGraph Server; `langgraph.json` names `auth`.

The metadata of a resource hold its user and its agent. The server's filters compare them with the caller's token.
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
#: Agent of a thread while this module writes it; a client's value is ignored.
_WRITTEN: Final[ContextVar[str | None]] = ContextVar("mnemic_written_agent", default=None)
#: Message for a request without a valid token.
UNKNOWN: Final = "no valid token: send `Authorization: Bearer ...`, as `mnemic token` prints"


try:  # at import, so that a server with wrong settings does not start
    KEY: Final = Settings().server_key
except ConfigurationError as error:
    raise SystemExit(f"mnemic: {error}") from None  # one line instead of the server's traceback
load_zones()  # takes half a second; time zones of identities need no file later

#: Claims of the current request's token; None in a run, in background work and in development.
CALLER: Final[ContextVar[TokenClaims | None]] = ContextVar("mnemic_caller", default=None)

#: Caller of a server without a key; it binds a run to no user.
LOCAL: Final[dict[str, Any]] = {"identity": "local", "is_authenticated": False}
#: Graphs that work on one scope key: that of their input, by default the agent's.
_OF_ONE_SCOPE: Final = ("refinement", "consolidation", "maintenance")

auth = Auth()


def read_claims(authorization: str | None, key: SecretStr) -> TokenClaims | None:
    """Return the claims of the header `Authorization`, or None without a valid token."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    return decode_token(token.strip(), key.get_secret_value(), datetime.now(UTC))


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    """Return the holder of a valid token, or `local` if no key is set.

    Raises:
        HTTPException: if a key is set and the token is not valid.
    """
    if KEY is None:
        return LOCAL
    claims = read_claims(authorization, KEY)
    if claims is None:
        raise Auth.exceptions.HTTPException(401, UNKNOWN)
    CALLER.set(claims)
    allowed = {"agents": list(claims.agents), "groups": list(claims.groups)}
    return {"identity": claims.user, "is_authenticated": True, **allowed}


async def refuse(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """Refuse a request to a resource without a rule."""
    return False


async def allow(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Allow a request of any caller."""


async def own(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Write the owner into the metadata, and return the filter for resources of the owner and the token's agents."""
    if not isinstance(value.get("metadata"), dict):
        value["metadata"] = {}
    value["metadata"][OWNER] = ctx.user.identity  # in place, since the server continues with this dict
    filters: dict[str, Any] = {OWNER: ctx.user.identity}
    agents = token_claim(ctx.user, "agents")
    if len(agents) == 1:  # the server's `$or` needs two alternatives
        filters[AGENT] = agents[0]
    elif agents:
        filters["$or"] = [{AGENT: agent} for agent in agents]
    return filters


async def create(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Write the agent of a new resource into its metadata, if the token names its agents.

    Raises:
        HTTPException: if the token names several agents and the metadata name none of them.
    """
    is_copy = "metadata" not in value  # the copy keeps the metadata of its source
    filters, agents = await own(ctx, value), token_claim(ctx.user, "agents")
    if agents and not is_copy and value["metadata"].get(AGENT) not in agents:
        if len(agents) > 1:
            raise Auth.exceptions.HTTPException(
                403, f"this token names several agents: set metadata.{AGENT} to one of them"
            )
        value["metadata"][AGENT] = agents[0]
    return filters


async def update(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Keep the agent of a changed resource."""
    filters = await own(ctx, value)
    value["metadata"].pop(AGENT, None)
    if agent := _WRITTEN.get():
        value["metadata"][AGENT] = agent
    return filters


async def create_run(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Bind a run to the agent that the request or its assistant names, and its thread from the first run on.

    Raises:
        HTTPException: if no agent is named, the token does not allow it, the thread has another agent, or the context
            has an unknown field.
    """
    user, filters = ctx.user, await own(ctx, value)
    await _require_known_context(value)
    if KEY is None:
        # the scheduler of crons makes a user of the caller's name, and the run would treat it as authenticated
        value["kwargs"]["config"]["configurable"]["langgraph_auth_user"] = LOCAL
        return filters
    agent, agents = await _agent(value), token_claim(user, "agents")
    if agents and agent not in agents:
        raise Auth.exceptions.HTTPException(403, f"{AGENT}: the token does not name this agent")
    if value["thread_id"]:
        await _first_run(str(value["thread_id"]), agent)
    value["metadata"][AGENT] = agent
    value["kwargs"]["context"] = {
        **(value["kwargs"].get("context") or {}),
        AGENT: agent,
    }  # the run uses the checked agent
    return {OWNER: user.identity, AGENT: agent}


async def own_cron(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Refuse crons of a token that names its agents, since the runs of a cron have the user but not the token.

    Raises:
        HTTPException: if the token names its agents.
    """
    if token_claim(ctx.user, "agents"):
        raise Auth.exceptions.HTTPException(403, "this token names its agents, and a cron may use any agent")
    return await own(ctx, value)


async def create_cron(ctx: Auth.types.AuthContext, value: Any) -> Auth.types.FilterType:
    """Check the identity of a cron's runs now, since no client sees the errors of its runs.

    Raises:
        HTTPException: if a run with this context and input would be refused.
    """
    from langgraph_api.auth.custom import SimpleUser  # only a server has this package

    filters, payload = await own_cron(ctx, value), value["payload"]
    assistant = await _assistant(payload["assistant_id"])
    context = payload.get("context") or assistant["context"]
    try:
        # like the scheduler: the user by name, without the groups of a token
        user = None if KEY is None else SimpleUser(ctx.user.identity)
        thread_id = value["thread_id"] and str(value["thread_id"])
        identity = bind_identity(to_identity(context), user, thread_id or None)
        if assistant["graph_id"] in _OF_ONE_SCOPE:
            _require_scope(identity, payload.get("input") or {})
    except MnemicError as error:
        raise Auth.exceptions.HTTPException(422, f"the runs of this cron would fail: {error}") from None
    return filters


def _require_scope(identity: Identity, graph_input: Mapping[str, Any]) -> None:
    key = graph_input.get("scope_key") or scope_key("agent", identity.agent_id)
    if key not in identity.scope_keys:
        raise InvalidInputError(f"scope_key: this identity may not use it; it may use {', '.join(identity.scope_keys)}")
    require_own_scope(identity, key)


async def own_items(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Put store items below the namespace of their owner, and of an agent if the token names its agents.

    Raises:
        HTTPException: if the token names several agents and the namespace none of them.
    """
    requested: tuple[str, ...] = tuple(value.get("namespace") or ())
    owner, agents = _label(ctx.user.identity), token_claim(ctx.user, "agents")
    roots: list[tuple[str, ...]] = [(owner, f"agent:{_label(agent)}") for agent in agents] or [(owner,)]
    for root in roots:
        if requested[: len(root)] == root:
            value["namespace"] = requested
            return
    if len(roots) > 1:
        raise Auth.exceptions.HTTPException(403, f"this token names several agents: begin the namespace with {roots}")
    value["namespace"] = (*roots[0], *requested)


async def _require_known_context(value: Any) -> None:
    """Refuse an unknown field in the context of one of our graphs: the server would drop it without an error.

    Keys of `configurable`, which the server copies into the context, are not checked: they may have other uses.
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
    """Return the agent in the context of a run, or of its assistant."""
    agent = (value["kwargs"].get("context") or {}).get(AGENT)
    if agent is None:
        assistant = await _assistant(value["assistant_id"])
        agent = (assistant["context"] or {}).get(AGENT)
    if not isinstance(agent, str):
        raise Auth.exceptions.HTTPException(422, f"{AGENT}: set it in the context of the run, or of its assistant")
    return agent


async def _assistant(assistant_id: object) -> Any:
    from langgraph_api.graph import get_assistant_id

    try:
        return await get_client(url=None, api_key=None).assistants.get(get_assistant_id(str(assistant_id)))
    except NotFoundError:
        raise Auth.exceptions.HTTPException(404, "there is no such assistant") from None


async def _first_run(thread_id: str, agent: str) -> None:
    """Write the agent of a thread into its metadata, with the rights of the caller.

    Raises:
        HTTPException: if the thread belongs to another agent.
    """
    threads = get_client(url=None, api_key=None).threads  # of this server
    for found in await threads.search(ids=[thread_id], select=["metadata"], limit=1):
        written = (found["metadata"] or {}).get(AGENT)
        if written is None:
            token = _WRITTEN.set(agent)
            try:
                await threads.update(thread_id, metadata={})
            finally:
                _WRITTEN.reset(token)
        elif written != agent:
            raise Auth.exceptions.HTTPException(409, "the thread belongs to another agent: begin a new one")


def _label(name: str) -> str:
    """Return a name as one label of a namespace: without periods and wildcards, and unique for the name."""
    return name.replace("%", "%25").replace(".", "%2E").replace("*", "%2A")


auth.on(refuse)
for _resource in (auth.on.threads, auth.on.assistants):
    _resource(own)
    _resource.create(create)
    _resource.update(update)
auth.on.threads.create_run(create_run)
# every caller may see and run any assistant; the token selects the owner of the run
auth.on.assistants.read(allow)
auth.on.assistants.search(allow)
auth.on.crons(own_cron)
auth.on.crons.create(create_cron)
auth.on.store(own_items)
