"""The supervisor as a method of `Mnemic`."""

from typing import TYPE_CHECKING

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Checkpointer

from mnemic.graphs.formation import FormationGraph
from mnemic.graphs.recall import RecallGraph
from mnemic.operations.run.resources import Provider, Resources
from mnemic.state.errors import InvalidInputError

if TYPE_CHECKING:
    from mnemic.graphs.supervisor import SupervisorGraph


class Supervising:
    """An agent that is ready to talk."""

    _resources: Resources
    _provide: Provider
    _formation: FormationGraph
    _recall: RecallGraph

    def supervisor(self, checkpointer: Checkpointer = None) -> "SupervisorGraph":
        """The compiled supervisor: an agent with this memory, its tools and its sub-agents.

        Run it with `context=identity`. The configured `agent` model answers, or the offline rules.

        Args:
            checkpointer: where its threads are kept, such as `checkpointer()`; None: that of a graph around it, or
                nowhere, and then it can ask its user nothing.

        Raises:
            InvalidInputError: what is given is no checkpointer.
        """
        if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
            raise InvalidInputError("checkpointer: pass memory.checkpointer(), another of LangGraph's, or nothing")
        from mnemic.graphs.supervisor import build_supervisor  # here, for few processes need it

        return build_supervisor(
            self._provide,
            self._recall,
            self._formation,
            categories=self._resources.categories,
            checkpointer=checkpointer,
        )
