"""The formation graph: from a session's pending messages to memories, and to the consolidations that become due."""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from mnemic.graphs.consolidation import graph as consolidation_graph
from mnemic.memory.runtime.events import Recorded
from mnemic.memory.runtime.graph import (
    AnyGraph,
    as_node,
    as_route,
    hide_untracked,
    recorded,
    shown,
    with_lease,
    with_resources,
)
from mnemic.memory.runtime.resources import ENVIRONMENT, Provider
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.formation import (
    consolidate,
    decide,
    extract_facts,
    extract_observations,
    extract_reflections,
    find_similar,
    gate,
    note_gate,
    save,
)
from mnemic.state.graphs import FormationInput, FormationOutput, FormationState
from mnemic.state.identity import Identity

#: Nodes that work under the lease of the run.
_LEASED = (extract_facts, find_similar, decide, extract_reflections, extract_observations, save)


def build_formation(
    provide: Provider, consolidation: AnyGraph
) -> CompiledStateGraph[FormationState, Identity, FormationInput, FormationOutput]:
    """Return the compiled graph, without checkpoints: messages stay pending until the one operation that settles them.

    Args:
        provide: opens the resources of the nodes.
        consolidation: graph that runs for each due scope key, made for the same resources.
    """
    builder = StateGraph(
        FormationState, context_schema=Identity, input_schema=FormationInput, output_schema=FormationOutput
    )
    builder.add_node("gate", with_resources(provide, recorded(gate, Recorded("formation", "gate", note_gate))))
    for node in _LEASED:
        names = Recorded("formation", node.__name__)
        builder.add_node(node.__name__, with_lease(provide, recorded(node, names)))
    builder.add_node("consolidate", as_node(provide, partial(consolidate, graph=consolidation)))
    builder.add_edge(START, "gate")
    builder.add_conditional_edges("gate", as_route(_after_gate), ["extract_facts", "extract_observations", END])
    builder.add_conditional_edges("extract_facts", as_route(_after_facts), ["find_similar", "extract_reflections"])
    builder.add_conditional_edges("find_similar", as_route(_after_similar), ["decide", "extract_reflections"])
    builder.add_edge("decide", "extract_reflections")
    builder.add_edge("extract_reflections", "save")
    builder.add_edge("extract_observations", "save")
    builder.add_conditional_edges("save", as_route(_after_save), ["consolidate", END])
    formation = hide_untracked(builder.compile(name="formation", checkpointer=False))
    formation.nodes["consolidate"].subgraphs = [shown(consolidation)]
    return trace_without_contents(formation, provide)


# The routes read the untracked run: on a server's thread checkpointed channels hold values of the last run.


def _after_gate(state: FormationState) -> str:
    """Return extraction in one call or in turn, or the end if no formation is due."""
    run = state["run"]
    if not run.reason:
        return END
    if run.extraction == "single":
        return "extract_observations"
    return "extract_facts"


def _after_facts(state: FormationState) -> str:
    """Return the comparison with stored facts, if there is a new fact."""
    if state["run"].facts:
        return "find_similar"
    return "extract_reflections"


def _after_similar(state: FormationState) -> str:
    """Return the decision, if a new fact may change a stored one."""
    if state["run"].candidates:
        return "decide"
    return "extract_reflections"


def _after_save(state: FormationState) -> str | list[Send]:
    """Return one consolidation for each due scope key, in parallel, or the end."""
    due = state["run"].due
    if not due:
        return END
    return [Send("consolidate", {"scope_key": key}) for key in due]


graph = build_formation(ENVIRONMENT, consolidation_graph)
