"""Where a graph goes next."""

from collections.abc import Callable, Sequence
from typing import Any

from langgraph.graph import END
from langgraph.types import Send

from mnemic.state.graphs import ConsolidationState, FormationState


def unless_ended(node: str) -> Callable[[ConsolidationState], str]:
    """The given node, or the end where an outcome is known already."""

    def route(state: ConsolidationState) -> str:
        return END if state.get("outcome") else node

    return route


def after_gate(state: FormationState) -> str:
    """Something is due, or the run is over."""
    return "extract_facts" if state["reason"] else END


def after_facts(state: FormationState) -> str:
    """New facts are compared with what is known."""
    return "find_similar" if state["facts"] else "extract_reflections"


def after_neighbours(state: FormationState) -> str:
    """A decision is needed only where a neighbour lies in the check band."""
    return "decide" if state["neighbours"] else "extract_reflections"


def to_due_scopes(state: FormationState) -> Sequence[Send] | str:
    """One consolidation per due scope key, side by side."""
    sends: list[Any] = [Send("consolidate", {"scope_key": key}) for key in state["due"]]
    return sends or END
