"""Formation: runs the consolidation graph for one scope key that became due."""

import logging
from typing import Any, Protocol

from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from mnemic.operations.run.identity import acting_for, identity_of
from mnemic.state.errors import MnemicError
from mnemic.state.graphs import ConsolidationResult, FormationState
from mnemic.state.identity import Identity

_LOG = logging.getLogger("mnemic")


class Due(TypedDict):
    """What a `Send` to this node carries."""

    scope_key: str


class ConsolidationGraph(Protocol):
    """The compiled consolidation graph."""

    async def ainvoke(self, input: Any, /, *, context: Identity) -> Any: ...  # noqa: A002  # langgraph's own name


def consolidate(graph: ConsolidationGraph) -> Any:
    """One scope key; the formation is already saved, so whatever fails leaves the reflections waiting."""

    async def consolidate(state: Due, runtime: Runtime[Identity]) -> FormationState:
        key = state["scope_key"]
        identity = acting_for(identity_of(runtime), key)
        result = again = await _run(graph, key, identity)
        # once more: whoever came while it was busy has left his reflections to this run
        while again["outcome"] == "saved":
            again = await _run(graph, key, identity)
            if again["outcome"] == "saved":
                result = {**again, "absorbed": result["absorbed"] + again["absorbed"]}
        return {"consolidations": [result]}

    return consolidate


async def _run(graph: ConsolidationGraph, key: str, identity: Identity) -> ConsolidationResult:
    try:
        result: ConsolidationResult = await graph.ainvoke({"scope_key": key}, context=identity)
    except MnemicError as error:
        _LOG.warning("a consolidation failed, its reflections wait: %s", error)
        return {"scope_key": key, "outcome": "failed", "absorbed": 0, "kept_share": 1.0}
    return result
