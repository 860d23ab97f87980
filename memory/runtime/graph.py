"""Nodes with their resources, runs of graphs for a caller, and the graphs' appearance to a host."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph._internal._runnable import RunnableCallable  # as LangChain's agents: a node with both functions
from langgraph.channels import UntrackedValue
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime
from langgraph.types import Send

from mnemic.memory.runtime.identity import identity_of, session_of
from mnemic.memory.runtime.resources import Provider, Resources
from mnemic.state.errors import (
    BusyError,
    ConcurrentChangeError,
    DatabaseUnavailableError,
    InvalidInputError,
    MnemicError,
    ModelOutputError,
)
from mnemic.state.events import EventNode
from mnemic.state.graphs import ConsolidationState, FormationState, Lease
from mnemic.state.identity import Identity, scope_key, to_identity
from mnemic.state.kinds import LeasedWork
from mnemic.storage import leases
from mnemic.storage.leases import Failure

if TYPE_CHECKING:  # a graph that the others need not import
    from mnemic.state.refinement import RefinementState

State = TypeVar("State")
#: The next node, or the calls of the next node.
Route = TypeVar("Route", bound="str | list[Send]")
#: The channels of graphs that work under a lease.
Leased = TypeVar("Leased", FormationState, ConsolidationState, "RefinementState")
Graph = TypeVar("Graph", bound=Pregel[Any, Any, Any, Any])


#: The body of a node, which also gets the resources of its graph.
Act = Callable[[State, Resources, Runtime[Identity]], Awaitable[State]]
#: A compiled graph of ours, without the types of its channels.
AnyGraph = Pregel[Any, Identity, Any, Any]

#: A host's node that calls these graphs hands its own durability down, and LangGraph 1.2 fails under "sync" to run a
#: graph that keeps no checkpoints (`_put_checkpoint_fut`); its argument `durability` warns for such a graph.
#: Neither is a host's limit of steps ours: a refinement takes hundreds, and has limits of its own.
_IN_A_HOST: RunnableConfig = {"configurable": {"__pregel_durability": "async"}, "recursion_limit": 10_000}


async def run_graph(graph: AnyGraph, given: dict[str, Any], identity: Identity, run_id: UUID | None = None) -> Any:
    """Run a graph and return its output; its own type is only a dict."""
    config: RunnableConfig = {**_IN_A_HOST, "run_id": run_id or uuid4()}
    return await graph.ainvoke(given, context=to_identity(identity), config=config)


async def run_leased(
    resources: Resources, graph: AnyGraph, given: dict[str, Any], identity: Identity, lease: Lease
) -> Any:
    """Run a graph as `run_graph` does; release its lease if the run fails, even between two nodes."""
    async with release_lease_on_error(resources, identity, lease):
        return await run_graph(graph, given, identity, lease.holder)


def shown(graph: Pregel[Any, Any, Any, Any]) -> Pregel[Any, Any, Any, Any]:
    """Return the graph as LangGraph lists it among a node's subgraphs, for drawings only.

    LangGraph reads the state of each listed graph if a thread waits before the node, which fails for a graph compiled
    without checkpoints. For the same reason it does not find such a graph in the node's code by itself.
    """
    return graph.copy(update={"checkpointer": None})


def hide_untracked(graph: Graph) -> Graph:
    """Keep untracked channels, which hold memory and messages, out of the graph's checkpoint and debug events.

    LangGraph Server stores the values of these events in its thread's row. A run's output and updates are not touched.
    """
    names = graph.stream_channels_list
    graph.stream_channels = [name for name in names if not isinstance(graph.channels[name], UntrackedValue)]
    return graph


def recorded(act: Act[State], node: EventNode, op: str) -> Act[State]:
    """Return the same body, which records an event with its duration at each run."""

    async def run(state: State, resources: Resources, runtime: Runtime[Identity]) -> State:
        with resources.recorded(identity_of(runtime), node, op):
            return await act(state, resources, runtime)

    return run


def as_node(provide: Provider, act: Callable[..., Awaitable[State]]) -> Runnable[State, State]:
    """Return a function of state and runtime as a node for `invoke` and `ainvoke`.

    It runs on the event loop of the resources, in whichever thread or loop the graph runs.
    """

    def run(state: State, runtime: Runtime[Any]) -> State:
        return provide.run(partial(_awaited, act, state, runtime))

    async def run_async(state: State, runtime: Runtime[Any]) -> State:
        return await provide.run_async(partial(_awaited, act, state, runtime))

    return RunnableCallable(run, run_async, trace=False)


async def _awaited(act: Callable[..., Awaitable[State]], state: State, runtime: Runtime[Any]) -> State:
    return await act(state, runtime)


def as_route(choose: Callable[[State], Route]) -> Runnable[State, Route]:
    """Return a function that chooses the next node as a route that takes no thread from the event loop."""

    async def choose_async(state: State) -> Route:
        return choose(state)

    return RunnableCallable(choose, choose_async, trace=False)


def with_resources(
    provide: Provider, act: Act[State], on_unavailable: Callable[[MnemicError, Runtime[Identity]], State] | None = None
) -> Runnable[State, State]:
    """Return a node with this body.

    Args:
        provide: opens the resources.
        act: the body.
        on_unavailable: returns the update if the database is unavailable or busy; None to fail.
    """

    async def run(state: State, runtime: Runtime[Identity]) -> State:
        try:
            return await act(state, await provide(), runtime)
        except (BusyError, DatabaseUnavailableError) as error:
            if on_unavailable is None:
                raise
            return on_unavailable(error, runtime)

    return as_node(provide, run)


def with_lease(provide: Provider, act: Act[Leased]) -> Runnable[Leased, Leased]:
    """Return a node with this body, which releases the run's lease if it fails or is cancelled."""

    async def held(state: Leased, resources: Resources, runtime: Runtime[Identity]) -> Leased:
        async with release_lease_on_error(resources, identity_of(runtime), state["lease"]):
            return await act(state, resources, runtime)

    return with_resources(provide, held)


@asynccontextmanager
async def release_lease_on_error(resources: Resources, identity: Identity, lease: Lease) -> AsyncIterator[None]:
    """Release the lease if the block fails or is cancelled. The lease of a killed run expires."""
    try:
        yield
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
        # shielded: some hosts cancel again while a cancelled task ends
        await asyncio.shield(release_lease(resources, identity, lease, _failure_of(error)))
        raise


def _failure_of(error: BaseException) -> Failure:
    """Return whether the same work will fail again, may succeed at once, or may succeed later."""
    if isinstance(error, ConcurrentChangeError) or not isinstance(error, Exception):
        return "interrupted"
    if isinstance(error, ModelOutputError | InvalidInputError) or not isinstance(error, MnemicError):
        return "unusable"  # an unexpected error, too, comes from this run's input
    return "unavailable"


async def release_lease(resources: Resources, identity: Identity, lease: Lease, failure: Failure) -> None:
    """End the lease with the pause after this failure; without the database it expires by itself."""
    with suppress(MnemicError):  # the caller must see the first failure
        await resources.database.write(identity, lambda tx: leases.release(tx, lease, resources.settings, failure))


def formation_lease(identity: Identity, holder: UUID, *, retry: bool = False) -> Lease:
    """Return the lease on a session: on its pending messages, or on its quarantined ones for a retry."""
    work: LeasedWork = "retry" if retry else "formation"
    return Lease(work, scope_key("session", session_of(identity)), holder)


def holder_of(runtime: Runtime[Identity]) -> UUID:
    """Return the holder of a lease: the run's id if the host gave a UUID, or a new id."""
    info = runtime.execution_info
    if info and info.run_id:
        with suppress(ValueError):
            return UUID(info.run_id)
    return uuid4()
