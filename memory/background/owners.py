"""The identity with which background work on a scope key runs."""

from typing import Any

from mnemic.state.background import Target
from mnemic.state.identity import Identity, Scope, split_scope_key

#: The actor of background work, as the audit names it.
BACKGROUND_ACTOR = "mnemic"


def owner_identity(target: Target) -> Identity:
    """Return the identity of the scope key's owner, with the background as its actor."""
    scope, owner = split_scope_key(target.scope_key)
    owners: dict[Scope, dict[str, Any]] = {
        "user": {"user_id": owner},
        "group": {"group_ids": (owner,)},
        "session": {"session_id": owner},
        "agent": {},
    }
    return Identity(agent_id=target.agent_id, actor_id=BACKGROUND_ACTOR, **owners[scope])
