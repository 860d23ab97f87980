"""The shape of a node."""

from collections.abc import Awaitable
from typing import Protocol

from langgraph.runtime import Runtime

from mnemic.state.graphs import ConsolidationState, FormationState, RecallState
from mnemic.state.identity import Identity


class FormationNode(Protocol):
    """A node of the formation graph."""

    def __call__(self, state: FormationState, runtime: Runtime[Identity]) -> Awaitable[FormationState]: ...


class ConsolidationNode(Protocol):
    """A node of the consolidation graph."""

    def __call__(self, state: ConsolidationState, runtime: Runtime[Identity]) -> Awaitable[ConsolidationState]: ...


class RecallNode(Protocol):
    """A node of the recall graph."""

    def __call__(self, state: RecallState, runtime: Runtime[Identity]) -> Awaitable[RecallState]: ...
