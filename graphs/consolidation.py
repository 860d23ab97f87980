"""The consolidation graph: `collect -> write -> save`, for one scope key."""

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mnemic.memory.runtime.events import Outcome, Tracked
from mnemic.memory.runtime.graph import hide_untracked, tracked, with_lease, with_resources
from mnemic.memory.runtime.resources import Provider, from_environment
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.consolidation import collect, save_consolidation, write_consolidation
from mnemic.state.graphs import ConsolidationInput, ConsolidationResult, ConsolidationState
from mnemic.state.identity import Identity


def build_consolidation(
    provide: Provider,
) -> CompiledStateGraph[ConsolidationState, Identity, ConsolidationInput, ConsolidationResult]:
    """Return the compiled graph, without checkpoints: all state that must survive a crash is in the database."""
    builder = StateGraph(
        ConsolidationState, context_schema=Identity, input_schema=ConsolidationInput, output_schema=ConsolidationResult
    )
    builder.add_node(
        "collect", with_resources(provide, tracked(collect, Tracked("consolidation", "collect", _read_outcome)))
    )
    writing, saving = (Tracked("consolidation", op, _read_outcome) for op in ("write", "save"))
    builder.add_node("write", with_lease(provide, tracked(write_consolidation, writing)))
    builder.add_node("save", with_lease(provide, tracked(save_consolidation, saving)))
    builder.add_edge(START, "collect")
    # routes read untracked channels: on a server's thread other channels still hold values of the last run
    builder.add_conditional_edges(
        "collect", lambda state: "write" if state["reflections"] or state["outdated"] else END, ["write", END]
    )
    builder.add_conditional_edges("write", lambda state: "save" if state["text"] else END, ["save", END])
    return trace_without_contents(hide_untracked(builder.compile(name="consolidation", checkpointer=False)), provide)


def _read_outcome(update: ConsolidationState, outcome: Outcome) -> None:
    if update.get("outcome", "saved") != "saved":
        outcome.status = "skipped"


graph = build_consolidation(from_environment)
