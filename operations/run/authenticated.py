"""What a server's authenticated user may name: what is theirs, and never what others share."""

from typing import Final

from langgraph.runtime import BaseUser

from mnemic.state.errors import RefusedIdentityError
from mnemic.state.identity import Identity, split_scope_key

#: The role that talks with people, which is that of an identity that names none.
TALKING: Final = "supervisor"


class Bound(Identity):
    """An identity that this process has made sure of: of an authenticated user, or of whom it acts for in their run.

    A request's context is plain data, which becomes an `Identity` and never one of these.
    """


def bound(identity: Identity, user: BaseUser | None, thread_id: str | None) -> Identity:
    """The identity as a server's authenticated user has it; as it is where nobody was authenticated.

    User, actor and session are the user's and the thread's, and the role is that which talks with people. Groups are
    those that the user has, or some of them; a user without the field `groups` has none. A user whose field `agents`
    names some has no other agents.

    Args:
        identity: as the request has it.
        user: LangGraph Server's authenticated user.
        thread_id: the run's thread.

    Raises:
        RefusedIdentityError: it names a user, an actor, a session, a group or an agent that is not theirs.
        InvalidInputError: the user's own id or groups cannot be used.
    """
    if isinstance(identity, Bound) or user is None or not user.is_authenticated:
        return identity
    own = {"user_id": user.identity, "actor_id": user.identity, "session_id": thread_id}
    for field, theirs in own.items():
        if getattr(identity, field) not in (None, theirs):
            raise RefusedIdentityError(f"{field}: the run is not theirs who was authenticated; leave it out")
    if identity.role != TALKING:
        raise RefusedIdentityError("role: a request speaks in no other role than the agent that people talk with")
    agents, groups = held_by(user, "agents"), held_by(user, "groups")
    if agents and identity.agent_id not in agents:
        raise RefusedIdentityError("agent_id: the token does not name this agent")
    if not set(identity.group_ids) <= set(groups):
        raise RefusedIdentityError("group_ids: the token does not name this group")
    return Bound(**{**identity.model_dump(), **own, "group_ids": identity.group_ids or groups})


def held_by(user: BaseUser, field: str) -> tuple[str, ...]:
    """What a pass says of its holder; whoever was authenticated otherwise has no such field."""
    held = user[field] if field in user else ()  # noqa: SIM401 - the protocol has no `get`
    return (held,) if isinstance(held, str) else tuple(held or ())


def require_own(identity: Identity, key: str) -> None:
    """Lets a request of an authenticated user at what is theirs alone; what others share is the host's to change.

    Raises:
        RefusedIdentityError: the scope key is a group's or the agent's, and the identity a request's.
    """
    if isinstance(identity, Bound) and split_scope_key(key)[0] in ("group", "agent"):
        raise RefusedIdentityError("scope_key: others share it, so it is for the host to do, and for no request")
