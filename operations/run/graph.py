"""What runs of graphs and tools share: nodes, a run for a caller, leases, metered models, and the event loop."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.channels import UntrackedValue
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime

from mnemic.models.answers import Answer, StepResult
from mnemic.operations.run.identity import identity_of, session_of
from mnemic.operations.run.resources import Provider, Resources
from mnemic.state.errors import (
    BlockedLoopError,
    ConcurrentChangeError,
    DatabaseUnavailableError,
    InvalidInputError,
    MnemicError,
    ModelError,
    ModelOutputError,
)
from mnemic.state.graphs import ConsolidationState, FormationState, Lease, RecallState
from mnemic.state.identity import Identity, scope_key, to_identity
from mnemic.state.kinds import Usage
from mnemic.state.refinement import RefinementState
from mnemic.state.supervisor import Progress, SupervisorState
from mnemic.storage import leases, scopes
from mnemic.storage.leases import Failure
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")

State = TypeVar("State")
#: The channels of graphs that work under a lease.
Leased = TypeVar("Leased", FormationState, ConsolidationState, RefinementState)
Result = TypeVar("Result")
Graph = TypeVar("Graph", bound=Pregel[Any, Any, Any, Any])

#: A loop that has not begun a call by then is blocked, most likely by the very call that waits for it.
STARTS_WITHIN_SECONDS: Final = 5.0


class Node(Protocol[State]):
    """A node of a graph with these channels: what it reads, and what it returns of them."""

    def __call__(self, state: State, runtime: Runtime[Identity]) -> Awaitable[State]: ...


#: What a node does, with the resources of its graph.
Act = Callable[[State, Resources, Runtime[Identity]], Awaitable[State]]
RecallNode = Node[RecallState]
SupervisorNode = Node[SupervisorState]

#: A host's node that calls these graphs hands its own durability down, and LangGraph 1.2 fails under "sync" to run a
#: graph that keeps no checkpoints (`_put_checkpoint_fut`); its argument `durability` warns for such a graph.
#: Neither is a host's limit of steps ours: a refinement takes hundreds, and has limits of its own.
_IN_A_HOST: RunnableConfig = {"configurable": {"__pregel_durability": "async"}, "recursion_limit": 10_000}


async def run_graph(
    graph: Pregel[Any, Identity, Any, Any], given: dict[str, Any], identity: Identity, run_id: UUID | None = None
) -> Any:
    """A graph's output; the graphs' own types say only that it is a dict."""
    config: RunnableConfig = {**_IN_A_HOST, "run_id": run_id or uuid4()}
    return await graph.ainvoke(given, context=to_identity(identity), config=config)


def shown(graph: Pregel[Any, Any, Any, Any]) -> Pregel[Any, Any, Any, Any]:
    """The graph as LangGraph lists it among a node's subgraphs, for drawings alone; what runs is the graph itself.

    LangGraph asks each of these for its state where a thread waits before the node, and that fails for a graph that is
    compiled without checkpoints. For the same reason it does not find such a graph in the node's code by itself.
    """
    return graph.copy(update={"checkpointer": None})


def hide_untracked(graph: Graph) -> Graph:
    """Keeps untracked channels, which hold memory and messages, out of the graph's checkpoint and debug events.

    LangGraph Server stores the values of these events in its thread's row. A run's output and updates are not touched.
    """
    names = graph.stream_channels_list
    graph.stream_channels = [name for name in names if not isinstance(graph.channels[name], UntrackedValue)]
    return graph


def stream_progress(runtime: Runtime[Identity], step: str, tools: Sequence[str] = ()) -> None:
    """Tells a host that streams custom events that a step begins: names, and nothing that anybody said or remembers.

    Args:
        runtime: of the node.
        step: its name.
        tools: those that it uses.
    """
    event: Progress = {"step": step, "tools": list(tools)} if tools else {"step": step}
    runtime.stream_writer(event)


def failure_of(error: BaseException) -> Failure:
    """What an error says about the work: whether the same work will fail again, may succeed later, or at once."""
    if isinstance(error, ConcurrentChangeError | asyncio.CancelledError):
        return "interrupted"
    if isinstance(error, ModelOutputError | InvalidInputError):
        return "unusable"
    return "unavailable"


def with_resources(provide: Provider, act: Act[State]) -> Node[State]:
    """The node that does this."""

    async def run(state: State, runtime: Runtime[Identity]) -> State:
        return await act(state, await provide(), runtime)

    return run


def with_lease(provide: Provider, act: Act[Leased]) -> Node[Leased]:
    """The node that does this, giving the lease that the first one took back where it fails or is cancelled."""

    async def run(state: Leased, runtime: Runtime[Identity]) -> Leased:
        resources = await provide()
        async with release_lease_on_error(resources, identity_of(runtime), state["lease"]):
            return await act(state, resources, runtime)

    return run


@asynccontextmanager
async def release_lease_on_error(resources: Resources, identity: Identity, lease: Lease) -> AsyncIterator[None]:
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
    return Lease("retry" if retry else "formation", scope_key("session", session_of(identity)), holder)


def holder_of(runtime: Runtime[Identity]) -> UUID:
    """Who takes a lease: the run by its own id, where the host gave one that is a UUID."""
    info = runtime.execution_info
    with suppress(ValueError):
        return UUID(info.run_id if info and info.run_id else "")
    return uuid4()


async def metered(
    resources: Resources, identity: Identity, running: Awaitable[StepResult[Answer]]
) -> StepResult[Answer]:
    """What a model answers, to a step or as an agent. No connection is held meanwhile; its tokens are recorded then.

    A paid answer is not lost for the record of its price: where that cannot be written, a warning says so.

    Args:
        running: `run_step`, `run_turn` or `run_answer`, not yet awaited.

    Raises:
        ModelError: the model failed; nothing was written but what it had cost.
    """
    try:
        result = await running
    except ModelError as error:
        await _record(resources, identity, error.spent)
        raise
    await _record(resources, identity, result.usage)
    return result


async def _record(resources: Resources, identity: Identity, spent: Usage | None) -> None:
    if spent is None or not spent.calls:
        return

    async def act(scoped: ScopedTransaction) -> None:
        await scopes.enter_agent(scoped)  # its first turn may come before its first message is stored
        await scopes.record_usage(scoped, spent)

    try:
        await resources.database.write(identity, act)
    except (DatabaseUnavailableError, ConcurrentChangeError) as error:
        _LOG.warning("the tokens of step %s are missing from its agent's usage: %s", spent.step, error)


def run_on_loop(loop: asyncio.AbstractEventLoop | None, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """What the call returns, run on the event loop that opened Mnemic, while this thread waits.

    Raises:
        BlockedLoopError: the loop is over, or it is this thread's own and waits for this call.
    """
    if loop is None or not loop.is_running():
        raise BlockedLoopError
    with suppress(RuntimeError):  # none runs in this thread
        if loop is asyncio.get_running_loop():
            raise BlockedLoopError
    begun = threading.Event()

    async def begin() -> Result:
        begun.set()
        return await call()

    coming = asyncio.run_coroutine_threadsafe(begin(), loop)
    if not begun.wait(STARTS_WITHIN_SECONDS):
        coming.cancel()
        raise BlockedLoopError
    try:
        return coming.result()
    except CancelledError:
        raise BlockedLoopError from None
