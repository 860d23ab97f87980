"""Where a graph goes next."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END
from langgraph.types import Send

from mnemic.state.graphs import ConsolidationState, FormationState
from mnemic.state.supervisor import SupervisorState

# Routes ask the untracked channels: on a server's thread the others still hold what the last run left in them.


def after_collect(state: ConsolidationState) -> str:
    """Something is due, or the run is over."""
    return "write" if state["reflections"] else END


def after_write(state: ConsolidationState) -> str:
    """There is a text to save, or both drafts were refused."""
    return "save" if state["text"] else END


def after_gate(state: FormationState) -> str:
    """Something is due, in one call or in turn, or the run is over."""
    if not state["reason"]:
        return END
    return "extract_observations" if state["extraction"] == "single" else "extract_facts"


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


def after_answer(state: SupervisorState) -> str:
    """Calls are to be done, some of them only if the user agrees; or the turn is over."""
    last = state["messages"][-1]
    if not isinstance(last, AIMessage) or not last.tool_calls:
        return "observe"
    return "confirm" if state.get("questions") else "tools"  # a client may have put the answer into a new thread
