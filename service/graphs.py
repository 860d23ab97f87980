"""The compiled graphs of one `Mnemic`."""

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Checkpointer

from mnemic.graphs.consolidation import build_consolidation
from mnemic.graphs.formation import build_formation
from mnemic.graphs.maintenance import build_maintenance
from mnemic.graphs.recall import build_recall
from mnemic.graphs.refinement import build_refinement
from mnemic.graphs.supervisor import SupervisorGraph, build_supervisor
from mnemic.memory.runtime.categories import Categories
from mnemic.memory.runtime.resources import Provider
from mnemic.state.errors import InvalidInputError


class Graphs:
    """The compiled graphs of one `Mnemic`, for a graph of your own; run each of them with `context=identity`."""

    def __init__(self, provide: Provider, categories: Categories) -> None:
        self._provide = provide
        self._categories = categories
        #: The memory context of a turn.
        self.recall = build_recall(provide)
        #: The consolidation of one scope key.
        self.consolidation = build_consolidation(provide)
        #: The formation of a session's pending messages.
        self.formation = build_formation(provide, self.consolidation)
        #: The refinement of an agent's context memories.
        self.refinement = build_refinement(provide)
        #: The daily work on all memories of an agent.
        self.maintenance = build_maintenance(provide)

    def supervisor(self, checkpointer: Checkpointer = None) -> SupervisorGraph:
        """Return an agent that is ready to talk, with this memory, its tools and its sub-agents.

        The configured `agent` model answers, or the offline rules.

        Args:
            checkpointer: the store of its threads, such as `memory.threads.checkpointer()`; None for the store of an
                enclosing graph. Without any, the supervisor cannot interrupt for its user's consent.

        Raises:
            InvalidInputError: if the argument is no checkpointer.
        """
        if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
            raise InvalidInputError("checkpointer: pass memory.threads.checkpointer(), another of LangGraph's, or None")
        return build_supervisor(
            self._provide, self.recall, self.formation, categories=self._categories, checkpointer=checkpointer
        )
