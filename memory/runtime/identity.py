"""The identity of a run: from the run's context, never from the state or a model, bound to the authenticated user."""

from typing import Any, Protocol

from langgraph.runtime import BaseUser, ExecutionInfo, ServerInfo

from mnemic.state.errors import InvalidInputError, RefusedIdentityError
from mnemic.state.identity import SUPERVISOR, Identity, split_scope_key, to_identity


class Run(Protocol):
    """LangGraph's runtime of a node, or of a tool."""

    @property
    def context(self) -> Any:
        """Context that the host set."""

    @property
    def server_info(self) -> ServerInfo | None:
        """Authenticated user; None without a server."""

    @property
    def execution_info(self) -> ExecutionInfo | None:
        """Thread and run; None outside a graph."""


def identity_of(run: Run, *, in_turn: bool = False) -> Identity:
    """Return the identity of this run. Without a session, the thread is the session, on a server and in a turn.

    Args:
        run: Run of a node or a tool.
        in_turn: Whether it is a turn of a conversation, in any host.

    Raises:
        MissingIdentityError: if there is no context, or one without an agent.
        InvalidInputError: if an id in it cannot be used.
        RefusedIdentityError: if it names an id that is not the authenticated user's.
    """
    user = run.server_info.user if run.server_info else None
    thread = run.execution_info.thread_id if run.execution_info else None
    identity = bind_identity(to_identity(run.context), user, thread)
    is_in_thread = thread and (in_turn or run.server_info)
    if identity.session_id is not None or not is_in_thread:
        return identity
    return identity.model_copy(update={"session_id": thread})


def log_ids(identity: Identity) -> dict[str, str | None]:
    """Return the ids of a run as fields of its records in the log."""
    return {"agent_id": identity.agent_id, "session_id": identity.session_id}


def acting_for(identity: Identity, scope_key: str) -> Identity:
    """Return the identity of the same run for one scope key's owner: a formation works for each speaker of a session.

    This also holds for an authenticated user's run: the new identity is made here, not by a request.
    """
    scope, owner = split_scope_key(scope_key)
    if scope != "user" or owner == identity.user_id:
        return identity
    update = {"user_id": owner, "actor_id": identity.actor, "teaches_agent": False, "members": (), "timezone": None}
    return identity.model_copy(update=update)


class BoundIdentity(Identity):
    """An identity that this process has checked: of an authenticated user, or of a speaker in that user's run.

    A request's context is plain data, which becomes an `Identity` and never one of these.
    """


def bind_identity(identity: Identity, user: BaseUser | None, thread_id: str | None) -> Identity:
    """Bind an identity to a server's authenticated user; return it unchanged without one.

    User, actor and session are the user's and the thread's, and the role is the one that talks with people. Groups are
    the user's groups or some of them; a user without the field `groups` has none. The field `agents` limits the
    agents of a user.

    Args:
        identity: Identity in the request.
        user: Authenticated user of LangGraph Server.
        thread_id: Thread of the run.

    Raises:
        RefusedIdentityError: if it names a user, an actor, a session, a group or an agent that is not the user's.
        InvalidInputError: if the id or a group of the authenticated user cannot be used.
    """
    if isinstance(identity, BoundIdentity) or user is None or not user.is_authenticated:
        return identity
    bound = {"user_id": user.identity, "actor_id": user.identity, "session_id": thread_id}
    for field, value in bound.items():
        if getattr(identity, field) not in (None, value):
            raise RefusedIdentityError(f"{field}: it is not the authenticated user's; leave it out")
    if identity.role != SUPERVISOR:
        raise RefusedIdentityError(f"role: a client's request has the role {SUPERVISOR}; leave it out")
    for field in ("teaches_agent", "members"):
        if getattr(identity, field):
            raise RefusedIdentityError(f"{field}: only the host may set it; leave it out")
    agents, groups = token_claim(user, "agents"), token_claim(user, "groups")
    if agents and identity.agent_id not in agents:
        raise RefusedIdentityError("agent_id: the token does not name this agent; use one that it names")
    if not set(identity.group_ids) <= set(groups):
        raise RefusedIdentityError("group_ids: the token does not name one of these groups; leave it out")
    return BoundIdentity(**{**identity.model_dump(), **bound, "group_ids": identity.group_ids or groups})


def token_claim(user: BaseUser, field: str) -> tuple[str, ...]:
    """Return a claim of the user's token; users of another authentication have no such field."""
    if field not in user:
        return ()
    values = user[field]
    if isinstance(values, str):
        return (values,)
    return tuple(values or ())


def require_scope_key(identity: Identity, key: str) -> None:
    """Raise if a scope key does not belong to the identity.

    Raises:
        InvalidInputError: if it belongs to another identity, or to none.
    """
    if key not in identity.scope_keys:
        keys = ", ".join(identity.scope_keys)
        raise InvalidInputError(f"scope_key: use one of this identity's: {keys}")


def require_own_scope(identity: Identity, key: str) -> None:
    """Raise if a request of an authenticated user concerns a shared scope key, which only the host may change.

    Raises:
        RefusedIdentityError: if the scope key is a group's or the agent's, and the identity is a request's.
    """
    if isinstance(identity, BoundIdentity) and split_scope_key(key)[0] in ("group", "agent"):
        raise RefusedIdentityError("scope_key: it is shared with others, so only the host may change it")


def session_of(identity: Identity) -> str:
    """Return the session of the run.

    Raises:
        InvalidInputError: if the identity names none.
    """
    if identity.session_id is None:
        raise InvalidInputError("session_id: it is missing, and messages belong to a session; give the identity one")
    return identity.session_id
