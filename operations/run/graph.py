"""What graphs share: the type of their nodes, one run on behalf of a caller, and progress."""

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime

from mnemic.state.graphs import RecallState
from mnemic.state.identity import Identity, to_identity
from mnemic.state.supervisor import Progress, SupervisorState

State = TypeVar("State")


class Node(Protocol[State]):
    """A node of a graph with these channels: what it reads, and what it returns of them."""

    def __call__(self, state: State, runtime: Runtime[Identity]) -> Awaitable[State]: ...


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


def stream_progress(runtime: Runtime[Identity], step: str, tools: Sequence[str] = ()) -> None:
    """Tells a host that streams custom events that a step begins: names, and nothing that anybody said or remembers.

    Args:
        runtime: of the node.
        step: its name.
        tools: those that it uses.
    """
    event: Progress = {"step": step, "tools": list(tools)} if tools else {"step": step}
    runtime.stream_writer(event)
