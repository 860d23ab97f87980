"""The formation graph: from a session's pending messages to memories, and to the consolidations that become due."""

from collections.abc import Callable
from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from mnemic.graphs.consolidation import graph as consolidation_graph
from mnemic.memory.formation.steps import FIRST_STEPS, STEPS, StepName, after_gate
from mnemic.memory.runtime.graph import AnyGraph, as_route, hide_untracked, shown, with_lease, with_resources
from mnemic.memory.runtime.resources import ENVIRONMENT, Provider
from mnemic.memory.runtime.tracing import trace_without_contents
from mnemic.nodes.formation import consolidate, gate, run_step
from mnemic.state.graphs import FormationInput, FormationOutput, FormationRun, FormationState
from mnemic.state.identity import Identity


def build_formation(
    provide: Provider, consolidation: AnyGraph
) -> CompiledStateGraph[FormationState, Identity, FormationInput, FormationOutput]:
    """Return the compiled graph, without checkpoints: messages stay pending until the one operation that settles them.

    It is for hosts that run it. Mnemic itself calls `form`, with the same steps, without the cost of a graph.

    Args:
        provide: opens the resources of the nodes.
        consolidation: graph whose steps are drawn in the node that calls them for each due scope key.
    """
    builder = StateGraph(
        FormationState, context_schema=Identity, input_schema=FormationInput, output_schema=FormationOutput
    )
    builder.add_node("gate", with_resources(provide, gate))
    builder.add_edge(START, "gate")
    builder.add_conditional_edges("gate", as_route(partial(_next, after_gate)), [*FIRST_STEPS, END])
    for name, step in STEPS.items():
        builder.add_node(name, with_lease(provide, partial(run_step, step=name)))
        if step.choose:
            builder.add_conditional_edges(name, as_route(partial(_next, step.after)), [*step.targets])
        for target in () if step.choose else step.targets:
            builder.add_edge(name, target)
    builder.add_conditional_edges("save", as_route(_after_save), ["consolidate", END])
    builder.add_node("consolidate", with_resources(provide, consolidate))
    formation = hide_untracked(builder.compile(name="formation", checkpointer=False))
    formation.nodes["consolidate"].subgraphs = [shown(consolidation)]
    return trace_without_contents(formation, provide)


# The routes read the untracked run: on a server's thread checkpointed channels hold values of the last run.


def _next(choose: Callable[[FormationRun], StepName | None], state: FormationState) -> str:
    return choose(state["run"]) or END


def _after_save(state: FormationState) -> str | list[Send]:
    """Return one consolidation for each due scope key, in parallel, or the end."""
    due = state["run"].due
    if not due:
        return END
    return [Send("consolidate", {"scope_key": key}) for key in due]


graph = build_formation(ENVIRONMENT, consolidation_graph)
