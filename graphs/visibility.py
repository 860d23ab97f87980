"""What LangGraph shows of a graph: to whoever draws it, and to a server that keeps what it is shown."""

from typing import Any, TypeVar

from langgraph.channels import UntrackedValue
from langgraph.pregel import Pregel

Graph = TypeVar("Graph", bound=Pregel[Any, Any, Any, Any])


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
