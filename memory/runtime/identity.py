"""The identity of a run: from the run's context, never from the state or a model, bound to the authenticated user."""

from typing import Any, Protocol

from langgraph.runtime import BaseUser, ExecutionInfo, ServerInfo

from mnemic.state.errors import InvalidInputError, RefusedIdentityError
from mnemic.state.identity import SUPERVISOR, Identity, split_scope_key, to_identity


class Run(Protocol):
    """LangGraph's runtime of a node, or of a tool."""

    @property
    def context(self) -> Any: ...
    @property
    def server_info(self) -> ServerInfo | None: ...
    @property
    def execution_info(self) -> ExecutionInfo | None: ...


def identity_of(run: Run, *, in_turn: bool = False) -> Identity:
    """Return the identity of this run. Without a session, the thread is the session, on a server and in a turn.

    Args:
        in_turn: whether it is a turn of a conversation, in any host.

    Raises:
        MissingIdentityError: no context, or one without an agent.
        InvalidInputError: an id in it cannot be used.
        RefusedIdentityError: it names an id that is not the authenticated user's.
    """
    user = run.server_info.user if run.server_info else None
    thread = run.execution_info.thread_id if run.execution_info else None
    identity = bind_identity(to_identity(run.context), user, thread)
    names_session = identity.session_id is not None or not thread or not (in_turn or run.server_info)
    return identity if names_session else identity.model_copy(update={"session_id": thread})


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
        identity: the identity in the request.
        user: LangGraph Server's authenticated user.
        thread_id: the run's thread.

    Raises:
        RefusedIdentityError: it names a user, an actor, a session, a group or an agent that is not theirs.
        InvalidInputError: the user's own id or groups cannot be used.
    """
    if isinstance(identity, BoundIdentity) or user is None or not user.is_authenticated:
        return identity
    own = {"user_id": user.identity, "actor_id": user.identity, "session_id": thread_id}
    for field, theirs in own.items():
        if getattr(identity, field) not in (None, theirs):
            raise RefusedIdentityError(f"{field}: the run is not theirs who was authenticated; leave it out")
    if identity.role != SUPERVISOR:
        raise RefusedIdentityError("role: a request speaks in no other role than the agent that people talk with")
    if claimed := [field for field in ("teaches_agent", "members") if getattr(identity, field)]:
        raise RefusedIdentityError(f"{claimed[0]}: that is for the host to say, and for no request")
    agents, groups = token_claim(user, "agents"), token_claim(user, "groups")
    if agents and identity.agent_id not in agents:
        raise RefusedIdentityError("agent_id: the token does not name this agent")
    if not set(identity.group_ids) <= set(groups):
        raise RefusedIdentityError("group_ids: the token does not name this group")
    return BoundIdentity(**{**identity.model_dump(), **own, "group_ids": identity.group_ids or groups})


def token_claim(user: BaseUser, field: str) -> tuple[str, ...]:
    """Return a claim of the user's token; users of another authentication have no such field."""
    held = user[field] if field in user else ()  # noqa: SIM401 - the protocol has no `get`
    return (held,) if isinstance(held, str) else tuple(held or ())


def require_own_scope(identity: Identity, key: str) -> None:
    """Raise if a request of an authenticated user concerns a shared scope key, which only the host may change.

    Raises:
        RefusedIdentityError: the scope key is a group's or the agent's, and the identity a request's.
    """
    if isinstance(identity, BoundIdentity) and split_scope_key(key)[0] in ("group", "agent"):
        raise RefusedIdentityError("scope_key: others share it, so it is for the host to do, and for no request")


def session_of(identity: Identity) -> str:
    """Return the session of the run.

    Raises:
        InvalidInputError: the identity names none.
    """
    if identity.session_id is None:
        raise InvalidInputError("messages belong to a session: give the identity a session_id")
    return identity.session_id
