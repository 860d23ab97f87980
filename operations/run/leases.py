"""Runs that work under a lease give it back when they fail."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from uuid import UUID, uuid4

from langgraph.runtime import Runtime

from mnemic.operations.messages.speakers import session_of
from mnemic.operations.run.graph import Node, State
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider, Resources
from mnemic.state.errors import ConcurrentChangeError, InvalidInputError, MnemicError, ModelOutputError
from mnemic.state.graphs import ConsolidationState, FormationState
from mnemic.state.identity import Identity, scope_key
from mnemic.state.refinement import RefinementState
from mnemic.storage import leases
from mnemic.storage.leases import Failure, Lease
from mnemic.storage.transaction import ScopedTransaction


def failure_of(error: BaseException) -> Failure:
    """What an error says about the work: whether the same work will fail again, may succeed later, or at once."""
    if isinstance(error, ConcurrentChangeError | asyncio.CancelledError):
        return "interrupted"
    if isinstance(error, ModelOutputError | InvalidInputError):
        return "unusable"
    return "unavailable"


#: What a node does, with the resources of its graph.
Act = Callable[[State, Resources, Runtime[Identity]], Awaitable[State]]


def with_resources(provide: Provider, act: Act[State]) -> Node[State]:
    """The node that does this."""

    async def run(state: State, runtime: Runtime[Identity]) -> State:
        return await act(state, await provide(), runtime)

    return run


def with_lease(provide: Provider, act: Act[State], lease_of: Callable[[State, Identity], Lease]) -> Node[State]:
    """The node that does this, giving the run's lease back where it fails or is cancelled."""

    async def run(state: State, runtime: Runtime[Identity]) -> State:
        resources, identity = await provide(), identity_of(runtime)
        async with returned(resources, identity, lease_of(state, identity)):
            return await act(state, resources, runtime)

    return run


@asynccontextmanager
async def returned(resources: Resources, identity: Identity, lease: Lease) -> AsyncIterator[None]:
    """Gives the lease back where the block fails or is cancelled. A killed run's lease expires."""
    try:
        yield
    except (MnemicError, asyncio.CancelledError) as error:
        # shielded: some hosts cancel again what still runs in a cancelled task
        await asyncio.shield(give_back(resources, identity, lease, failure_of(error)))
        raise


async def give_back(resources: Resources, identity: Identity, lease: Lease, failure: Failure) -> None:
    """Ends the lease with the wait the failure asks for; where the database is away, it expires by itself."""

    async def act(scoped: ScopedTransaction) -> None:
        await leases.give_back(scoped, lease, resources.settings, failure)

    with suppress(MnemicError):  # the failure itself is what the caller must see
        await resources.database.write(identity, act)


def formation_lease(identity: Identity, holder: UUID, *, retry: bool = False) -> Lease:
    """The lease on a session: on what is fresh there, or on what was set aside."""
    return Lease(
        work="retry" if retry else "formation", scope_key=scope_key("session", session_of(identity)), holder=holder
    )


def formation_lease_of(state: FormationState, identity: Identity) -> Lease:
    """The lease that the gate has taken."""
    return formation_lease(identity, state["lease"], retry=state.get("retry", False))


def consolidation_lease_of(state: ConsolidationState, _: Identity) -> Lease:
    """The lease that `collect` has taken."""
    return Lease(work="consolidation", scope_key=state["scope_key"], holder=state["lease"])


def refinement_lease_of(state: RefinementState, _: Identity) -> Lease:
    """The lease under which the session was opened."""
    return Lease(work="refinement", scope_key=state["scope_key"], holder=UUID(state["holder"]))


def holder_of(runtime: Runtime[Identity]) -> UUID:
    """Who takes a lease: the run by its own id, where the host gave one that is a UUID."""
    info = runtime.execution_info
    with suppress(ValueError):
        return UUID(info.run_id if info and info.run_id else "")
    return uuid4()
