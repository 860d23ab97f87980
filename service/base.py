"""What the methods of `Mnemic` work with: the opened resources, and the compiled graphs over them."""

from functools import cached_property
from typing import TYPE_CHECKING

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Checkpointer

from mnemic.graphs.consolidation import ConsolidationGraph, build_consolidation
from mnemic.graphs.formation import FormationGraph, build_formation
from mnemic.graphs.recall import RecallGraph, build_recall
from mnemic.operations.run.resources import Provider, Resources
from mnemic.policy.categories import Categories
from mnemic.state.errors import InvalidInputError

if TYPE_CHECKING:
    from mnemic.graphs.refinement import RefinementGraph
    from mnemic.graphs.supervisor import SupervisorGraph


class Graphs:
    """The compiled graphs of one `Mnemic`, for a graph of your own; each is run with `context=identity`."""

    recall: RecallGraph
    formation: FormationGraph
    consolidation: ConsolidationGraph

    def __init__(self, provide: Provider, categories: Categories) -> None:
        self._provide = provide
        self._categories = categories
        self.recall = build_recall(provide)
        self.consolidation = build_consolidation(provide)
        self.formation = build_formation(provide, self.consolidation)

    @cached_property
    def refinement(self) -> "RefinementGraph":
        """An agent compressing its core memory."""
        from mnemic.graphs.refinement import build_refinement  # here, for few processes refine

        return build_refinement(self._provide)

    def supervisor(self, checkpointer: Checkpointer = None) -> "SupervisorGraph":
        """An agent that is ready to talk, with this memory, its tools and its sub-agents.

        The configured `agent` model answers, or the offline rules.

        Args:
            checkpointer: where its threads are kept, such as `Mnemic.checkpointer()`; None: that of a graph around it,
                or nowhere, and then it can ask its user nothing.

        Raises:
            InvalidInputError: what is given is no checkpointer.
        """
        if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
            raise InvalidInputError("checkpointer: pass memory.checkpointer(), another of LangGraph's, or nothing")
        from mnemic.graphs.supervisor import build_supervisor  # here, for few processes need it

        return build_supervisor(
            self._provide, self.recall, self.formation, categories=self._categories, checkpointer=checkpointer
        )


class MemoryBase:
    """The base of every group of `Mnemic`'s methods; each group is a class in a file of its own.

    A method checks its arguments and calls one operation or graph; what it does is written there.
    """

    #: What is open.
    resources: Resources
    #: The compiled graphs.
    graphs: Graphs

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self.graphs = Graphs(self._provide, resources.categories)

    async def _provide(self) -> Resources:
        return self.resources
