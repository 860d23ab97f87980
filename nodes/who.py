"""Whose run it is: read from the run's context, never from the state or a model."""

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime

from mnemic.state.checking import MAPPING, checked
from mnemic.state.errors import MissingIdentityError
from mnemic.state.identity import Identity, split_scope_key


def identity_of(runtime: Runtime[Identity]) -> Identity:
    """The identity of this run.

    Raises:
        MissingIdentityError: no context, or one without an agent.
        InvalidInputError: an id in it cannot be used.
    """
    return to_identity(runtime.context)


def to_identity(context: object) -> Identity:
    """The identity that a context stands for.

    A graph used as a node of another one gets that host's context object as it is, so any object or mapping that
    carries the identity's fields will do.

    Raises:
        MissingIdentityError: no context, or one without an agent.
        InvalidInputError: an id in it cannot be used.
    """
    if isinstance(context, Identity):
        return context
    given = checked(MAPPING, context, strict=False) if isinstance(context, Mapping) else _attributes(context)
    fields: dict[str, Any] = {name: given[name] for name in Identity.model_fields if given.get(name) is not None}
    if "agent_id" not in fields:
        raise MissingIdentityError
    return Identity(**fields)


def _attributes(context: object) -> dict[str, object]:
    return {name: getattr(context, name, None) for name in Identity.model_fields}


def acting_for(identity: Identity, scope_key: str) -> Identity:
    """The same run, seeing one scope key's owner: for what a session's formation does for each of its speakers."""
    scope, owner = split_scope_key(scope_key)
    if scope != "user" or owner == identity.user_id:
        return identity
    return identity.model_copy(update={"user_id": owner, "actor_id": identity.actor})
