"""One run of a compiled graph on behalf of a caller."""

from typing import Any
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from mnemic.operations.run.identity import to_identity
from mnemic.state.identity import Identity

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
