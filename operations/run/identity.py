"""Whose run it is: read from the run's context, never from the state or a model, and bound to who was authenticated."""

from collections.abc import Mapping
from typing import Any, Protocol

from langgraph.runtime import ExecutionInfo, ServerInfo

from mnemic.operations.run.authenticated import TALKING, bound
from mnemic.state.checking import MAPPING, checked
from mnemic.state.errors import MissingIdentityError
from mnemic.state.identity import Identity, split_scope_key


class Run(Protocol):
    """What is known of a run: LangGraph's runtime of a node, or of a tool."""

    @property
    def context(self) -> Any: ...
    @property
    def server_info(self) -> ServerInfo | None: ...
    @property
    def execution_info(self) -> ExecutionInfo | None: ...


def identity_of(run: Run) -> Identity:
    """The identity of this run. Under a server its thread is the session, where it names none.

    Raises:
        MissingIdentityError: no context, or one without an agent.
        InvalidInputError: an id in it cannot be used.
        RefusedIdentityError: it names what is not the authenticated user's.
    """
    user = run.server_info.user if run.server_info else None
    identity = bound(to_identity(run.context), user, _thread(run))
    return _in_thread(identity, run) if run.server_info else identity


def turn_identity(run: Run) -> Identity:
    """The identity of a turn of a conversation: where it names no session, its thread is one, in any host.

    Raises:
        MissingIdentityError, InvalidInputError, RefusedIdentityError: as `identity_of`.
    """
    return _in_thread(identity_of(run), run)


def supervising(run: Run) -> Identity:
    """The identity of a turn of the supervisor, which acts in no other role than its own.

    Raises:
        MissingIdentityError, InvalidInputError, RefusedIdentityError: as `identity_of`.
    """
    return turn_identity(run).model_copy(update={"role": TALKING})


def _in_thread(identity: Identity, run: Run) -> Identity:
    thread = _thread(run)
    return identity if identity.session_id or not thread else identity.model_copy(update={"session_id": thread})


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
    """The same run, seeing one scope key's owner: for what a session's formation does for each of its speakers.

    The run of an authenticated user goes on so too: what its identity becomes is made here, and by no request.
    """
    scope, owner = split_scope_key(scope_key)
    if scope != "user" or owner == identity.user_id:
        return identity
    return identity.model_copy(update={"user_id": owner, "actor_id": identity.actor})


def _thread(run: Run) -> str | None:
    return run.execution_info.thread_id if run.execution_info else None
