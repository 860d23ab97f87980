"""The formation graph: from a session's pending messages to memories, and to the consolidations that became due."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from mnemic.graphs.consolidation import graph as consolidation_graph
from mnemic.memory.runtime.events import Outcome, Tracked
from mnemic.memory.runtime.graph import AnyGraph, hide_untracked, shown, tracked, with_lease, with_resources
from mnemic.memory.runtime.resources import Provider, from_environment
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.formation.gate import gate
from mnemic.nodes.formation.model_steps import (
    decide,
    extract_facts,
    extract_observations,
    extract_reflections,
    find_similar,
)
from mnemic.nodes.formation.save import consolidate, save
from mnemic.state.graphs import FormationInput, FormationOutput, FormationState
from mnemic.state.identity import Identity


def build_formation(
    provide: Provider, consolidation: AnyGraph
) -> CompiledStateGraph[FormationState, Identity, FormationInput, FormationOutput]:
    """Return the compiled graph, without checkpoints: messages stay pending until the one operation that settles them.

    Args:
        provide: opens the resources of the nodes.
        consolidation: runs for each scope key that became due; made for the same resources.
    """
    builder = StateGraph(
        FormationState, context_schema=Identity, input_schema=FormationInput, output_schema=FormationOutput
    )
    builder.add_node("gate", with_resources(provide, tracked(gate, Tracked("formation", "gate", _read_gate))))
    for node in (extract_facts, find_similar, decide, extract_reflections, extract_observations, save):
        names = Tracked("formation", node.__name__)
        builder.add_node(node.__name__, with_lease(provide, tracked(node, names)))
    builder.add_node("consolidate", partial(consolidate, graph=consolidation))
    builder.add_edge(START, "gate")
    builder.add_conditional_edges("gate", _after_gate, ["extract_facts", "extract_observations", END])
    # new facts are compared with stored ones; a decision is needed only if one of them may change
    reflect = "extract_reflections"
    builder.add_conditional_edges(
        "extract_facts", lambda state: "find_similar" if state["facts"] else reflect, ["find_similar", reflect]
    )
    builder.add_conditional_edges(
        "find_similar", lambda state: "decide" if state["candidates"] else reflect, ["decide", reflect]
    )
    builder.add_edge("decide", "extract_reflections")
    builder.add_edge("extract_reflections", "save")
    builder.add_edge("extract_observations", "save")
    # one consolidation per due scope key, side by side
    builder.add_conditional_edges(
        "save",
        lambda state: [Send("consolidate", {"scope_key": key}) for key in state["due"]] or END,
        ["consolidate", END],
    )
    formation = hide_untracked(builder.compile(name="formation", checkpointer=False))
    formation.nodes["consolidate"].subgraphs = [shown(consolidation)]
    return trace_without_contents(formation, provide)


# Routes read untracked channels: on a server's thread other channels still hold values of the last run.


def _read_gate(update: FormationState, outcome: Outcome) -> None:
    if not update.get("reason"):
        outcome.status = "skipped"


def _after_gate(state: FormationState) -> str:
    """Return the next node: extraction in one call or per turn, or the end."""
    if not state["reason"]:
        return END
    return "extract_observations" if state["extraction"] == "single" else "extract_facts"


graph = build_formation(from_environment, consolidation_graph)
