"""The shape of a node."""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from langgraph.runtime import Runtime

from mnemic.state.graphs import ConsolidationState, FormationState, RecallState, RefinementState
from mnemic.state.identity import Identity
from mnemic.state.supervisor import SupervisorState

State = TypeVar("State")


class Node(Protocol[State]):
    """A node of a graph with these channels: what it reads, and what it returns of them."""

    def __call__(self, state: State, runtime: Runtime[Identity]) -> Awaitable[State]: ...


FormationNode = Node[FormationState]
ConsolidationNode = Node[ConsolidationState]
RecallNode = Node[RecallState]
RefinementNode = Node[RefinementState]
SupervisorNode = Node[SupervisorState]
