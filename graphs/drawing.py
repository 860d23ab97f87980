"""Which graphs are drawn in a node's place."""

from typing import Any

from langgraph.pregel import Pregel


def shown(graph: Pregel[Any, Any, Any, Any]) -> Pregel[Any, Any, Any, Any]:
    """The graph as LangGraph lists it among a node's subgraphs, for drawings alone; what runs is the graph itself.

    LangGraph asks each of these for its state where a thread waits before the node, and that fails for a graph that is
    compiled without checkpoints. For the same reason it does not find such a graph in the node's code by itself.
    """
    return graph.copy(update={"checkpointer": None})
