"""Whose run it is: read from the run's context, never from the state or a model."""

from collections.abc import Mapping

from langgraph.runtime import Runtime
from pydantic import ValidationError

from mnemic.state.errors import InvalidInputError, MissingIdentityError
from mnemic.state.identity import Identity, split_scope_key


def identity_of(runtime: Runtime[Identity]) -> Identity:
    """The identity of this run.

    A graph used as a node of another one gets that host's context object as it is, so any object or mapping that
    carries the identity's fields will do.

    Raises:
        MissingIdentityError: no context, or one without an agent.
        InvalidInputError: an id in it cannot be used.
    """
    context: object = runtime.context
    if isinstance(context, Identity):
        return context
    fields = {name: value for name in Identity.model_fields if (value := _read(context, name)) is not None}
    if "agent_id" not in fields:
        raise MissingIdentityError
    try:
        return Identity.model_validate(fields)
    except ValidationError as error:
        names = ", ".join(str(problem["loc"][0]) for problem in error.errors(include_input=False))
        raise InvalidInputError(f"the run's context does not make an identity: see {names}") from None


def _read(context: object, name: str) -> object:
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)


def acting_for(identity: Identity, scope_key: str) -> Identity:
    """The same run, seeing one scope key's owner: for what a session's formation does for each of its speakers."""
    scope, owner = split_scope_key(scope_key)
    if scope != "user" or owner == identity.user_id:
        return identity
    return identity.model_copy(update={"user_id": owner, "actor_id": identity.actor})
