"""Nodes that work under a lease give it back when they fail."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID, uuid4

from langgraph.runtime import Runtime

from mnemic.nodes.lines import session_of
from mnemic.nodes.resources import Provider, Resources
from mnemic.nodes.typing import Node, State
from mnemic.nodes.who import identity_of
from mnemic.state.errors import (
    ConcurrentChangeError,
    ConfigurationError,
    DatabaseUnavailableError,
    MnemicError,
    ModelError,
    ModelOutputError,
)
from mnemic.state.graphs import ConsolidationState, FormationState
from mnemic.state.identity import Identity, scope_key
from mnemic.storage import leases
from mnemic.storage.database import Scoped
from mnemic.storage.leases import Failure, Job, Lease

_UNAVAILABLE = (ModelError, DatabaseUnavailableError, ConfigurationError)


def failure_of(error: BaseException) -> Failure:
    """What an error says about the work: whether the same work will fail again, may succeed later, or at once."""
    if isinstance(error, ConcurrentChangeError | asyncio.CancelledError):
        return "interrupted"
    if isinstance(error, _UNAVAILABLE) and not isinstance(error, ModelOutputError):
        return "unavailable"
    return "unusable"


def holding(provide: Provider, node: Node[State], lease_of: Callable[[State, Identity], Lease]) -> Node[State]:
    """The node, giving the run's lease back where it fails or is cancelled. A killed one's lease expires."""

    async def run(state: State, runtime: Runtime[Identity]) -> State:
        try:
            return await node(state, runtime)
        except (MnemicError, asyncio.CancelledError) as error:
            resources, identity = await provide(), identity_of(runtime)
            await give_back(resources, identity, lease_of(state, identity), failure_of(error))
            raise

    return run


def formation_lease(identity: Identity, holder: str | None = None) -> Lease:
    """The lease on a session; a new one unless a holder is named."""
    return _lease("formation", scope_key("session", session_of(identity)), holder)


def consolidation_lease(key: str, holder: str | None = None) -> Lease:
    """The lease on a scope key's living text; a new one unless a holder is named."""
    return _lease("consolidation", key, holder)


def formation_lease_of(state: FormationState, identity: Identity) -> Lease:
    """The lease that the gate has taken."""
    return formation_lease(identity, state["lease"])


def consolidation_lease_of(state: ConsolidationState, _: Identity) -> Lease:
    """The lease that `collect` has taken."""
    return consolidation_lease(state["scope_key"], state["lease"])


def _lease(job: Job, key: str, holder: str | None) -> Lease:
    return Lease(job=job, scope_key=key, holder=UUID(holder) if holder else uuid4())


async def give_back(resources: Resources, identity: Identity, lease: Lease, failure: Failure) -> None:
    """Ends the lease with the wait the failure asks for; where the database is away, it expires by itself."""

    async def act(scoped: Scoped) -> None:
        await leases.give_back(scoped, lease, resources.settings, failure)

    with suppress(DatabaseUnavailableError):
        await resources.database.write(identity, act)
