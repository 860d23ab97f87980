"""Resources and compiled graphs of a `Mnemic`, and the methods of a conversation.

`recall` and `observe` frame a turn; `form`, `consolidate` and `refine` work on its messages and memories.
"""

from collections.abc import Sequence
from typing import cast
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Checkpointer
from pydantic import SkipValidation

from mnemic.graphs.consolidation import build_consolidation
from mnemic.graphs.formation import build_formation
from mnemic.graphs.maintenance import build_maintenance
from mnemic.graphs.recall import build_recall
from mnemic.graphs.refinement import build_refinement
from mnemic.graphs.supervisor import SupervisorGraph, build_supervisor
from mnemic.memory.background import reembedding
from mnemic.memory.background.maintenance.run import list_runs, maintain
from mnemic.memory.governance import rollback
from mnemic.memory.messages.incoming import HostMessage
from mnemic.memory.messages.turn import form_later, form_pending, formation_name, observe
from mnemic.memory.runtime import embedding
from mnemic.memory.runtime.categories import Categories
from mnemic.memory.runtime.graph import run_graph, run_leased
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Provider, Resources
from mnemic.state.checking import Limit, Seq, check_arguments
from mnemic.state.errors import InvalidInputError
from mnemic.state.graphs import ConsolidationResult, FormationOutput, Lease, RecallOutput, SearchMode
from mnemic.state.identity import AnyIdentity, HostId
from mnemic.state.maintenance import MaintenanceRun
from mnemic.state.query import BudgetTokens
from mnemic.state.records import FilledVectors, Observed, Reembedded
from mnemic.state.refinement import Refinement, RefinementResult


class Graphs:
    """The compiled graphs of one `Mnemic`, for a graph of your own; each is run with `context=identity`."""

    def __init__(self, provide: Provider, categories: Categories) -> None:
        self._provide = provide
        self._categories = categories
        self.recall = build_recall(provide)
        self.consolidation = build_consolidation(provide)
        self.formation = build_formation(provide, self.consolidation)
        #: An agent compressing its core memory.
        self.refinement = build_refinement(provide)
        #: The daily work on all memories of an agent.
        self.maintenance = build_maintenance(provide)

    def supervisor(self, checkpointer: Checkpointer = None) -> SupervisorGraph:
        """An agent that is ready to talk, with this memory, its tools and its sub-agents.

        The configured `agent` model answers, or the offline rules.

        Args:
            checkpointer: the store of its threads, such as `Mnemic.checkpointer()`; None for that of a graph around it.
                Without any, the supervisor cannot interrupt for its user's consent.

        Raises:
            InvalidInputError: the argument is no checkpointer.
        """
        if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
            raise InvalidInputError("checkpointer: pass memory.checkpointer(), another of LangGraph's, or nothing")
        return build_supervisor(
            self._provide, self.recall, self.formation, categories=self._categories, checkpointer=checkpointer
        )


class MemoryBase:
    """The base of every group of `Mnemic`'s methods; each group is a class in a file of its own.

    A method checks its arguments and calls one operation or graph.
    """

    def __init__(self, resources: Resources) -> None:
        #: Settings, database and models.
        self.resources = resources
        #: The compiled graphs.
        self.graphs = Graphs(self._provide, resources.categories)

    async def _provide(self) -> Resources:
        return self.resources


class Conversation(MemoryBase):
    """Methods around each turn of a conversation, and on the memories of many turns."""

    @check_arguments
    async def recall(
        self,
        identity: AnyIdentity,
        question: str = "",
        *,
        search: SearchMode = "auto",
        budget_tokens: BudgetTokens | None = None,
    ) -> RecallOutput:
        """Return the memory context of this turn: always-in-context memories, and search results if needed.

        `with_memory` puts its `context` into a request. If the embedder or the database fails, the turn goes on with
        less, and `degraded` names the missing part. The context lists changes since the session's last recall; pass its
        `revision` to `observe`.

        Args:
            identity: the owner of the memory; its role's allowlist applies.
            question: the message of this turn.
            search: `auto`: rules decide by the question; `always`: the agent is not sure of its answer; `never`.
            budget_tokens: maximum tokens of the search results; None for the setting.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: an argument cannot be used.
        """
        given = {"question": question, "search": search, "budget_tokens": budget_tokens}
        return cast(RecallOutput, await run_graph(self.graphs.recall, given, identity))

    @check_arguments
    async def observe(
        self,
        identity: AnyIdentity,
        messages: SkipValidation[Sequence[HostMessage]],
        *,
        revision: Seq | None = None,
        several_speakers: bool = False,
    ) -> Observed:
        """Store messages for formation, except those that the session already has. Waits for no model.

        Args:
            identity: the owner of the session, and the author of messages with the role `user`.
            messages: the whole conversation, or its new messages.
            several_speakers: whether a message may name another speaker, as in a group's thread; only if the host, not
                a client, has set the `user` of each message.
            revision: the `revision` returned by the recall for this turn, so that its changes are not announced again;
                None to announce them again.

        Raises:
            InvalidInputError: no session in the identity, an item that is no message, more than 100,000 of them, or a
                revision that no recall of this agent can have returned; nothing was written.
            RefusedIdentityError: a message names another speaker; nothing was written.
        """
        return await observe(self.resources, identity, messages, revision=revision, several_speakers=several_speakers)

    @check_arguments
    async def form(self, identity: AnyIdentity, *, force: bool = True, retry: bool = False) -> list[FormationOutput]:
        """Form the pending messages of the session, run after run until none is due.

        A last run that formed nothing has the reason: another run works on them (`leased`), they wait after a failure
        (`backoff`), or they were set aside.

        Args:
            force: form messages before a trigger calls for it, and without the pause after a failure.
            retry: form only messages that were set aside.

        Raises:
            ModelError: the model failed, or a setting of the embedder is wrong; the messages stay pending, as after
                any error.
            ConcurrentChangeError: other runs were faster, time and again.
            DatabaseUnavailableError: the database cannot be had in time.
            InvalidInputError: no session in the identity.
        """
        await self.resources.background.finish(formation_name(identity))
        return await form_pending(self.resources, self.graphs.formation, identity, force=force, retry=retry)

    @check_arguments
    async def form_later(self, identity: AnyIdentity) -> None:
        """Begin to form due messages without waiting for it; `form`, and the end of `Mnemic.open`, wait.

        A failure is a warning in the log; the messages stay pending.

        Raises:
            InvalidInputError: no session in the identity.
        """
        form_later(self.resources, self.graphs.formation, identity)

    @check_arguments
    async def embed_pending(self, identity: AnyIdentity) -> FilledVectors:
        """Fill the vectors of the identity's memories and messages that were stored without one.

        A text is stored without a vector if the embedder refuses it or does not answer. It is found by its words until
        then. A formation does the same in the background, after growing pauses; this method does not wait for them.

        Raises:
            EmbedderUnavailableError: the embedder does not answer; the vectors filled so far stay.
            EmbeddingError: a setting of the embedder is wrong.
        """
        return await embedding.embed_pending(self.resources, identity, force=True)

    @check_arguments
    async def reembed(
        self, agent_id: HostId | None = None, *, progress: reembedding.Progress | None = None
    ) -> Reembedded:
        """Move an agent, or all agents of the database, to the embedder of the settings, and wait until that is done.

        Until all vectors of an agent are made, its questions and new memories are embedded by `previous_embedder`, if
        the settings name it. Otherwise its former memories are found by words alone. A move that was broken off goes on
        with the next call, or as background work. Any number of processes can work on it at once.

        Args:
            agent_id: of one agent; None: all agents.
            progress: called after each batch with the number of entries that are done, and the number that is left.

        Raises:
            EmbedderUnavailableError: the embedder does not answer; the vectors made so far stay.
            EmbeddingError: a setting of the embedder is wrong.
        """
        return await reembedding.reembed(self.resources, agent_id, progress)

    @check_arguments
    async def consolidate(self, identity: AnyIdentity, scope_key: str, *, force: bool = False) -> ConsolidationResult:
        """Rewrite the consolidation of one of the identity's scope keys, if that is due.

        Args:
            force: also below the threshold, and without the wait after a failure.
        """
        given, lease = {"scope_key": scope_key, "force": force}, Lease("consolidation", scope_key, uuid4())
        result = await run_leased(self.resources, self.graphs.consolidation, given, identity, lease)
        return cast(ConsolidationResult, result)

    @check_arguments
    async def refine(
        self, identity: AnyIdentity, scope_key: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> RefinementResult:
        """Refine the core memory of one scope key if it has outgrown its budget, or resume a session that broke off.

        The configured `agent` model, in the agent's persona, merges, shortens, deletes and protects memories with tools
        of this session only. Each call is an operation of its own; `undo_refinement` undoes all of them.

        Args:
            scope_key: the memory to refine, such as `user:ana`; None for the agent's own.
            force: refine a memory within its budget, too.
            dry_run: count the work, and change nothing.

        Raises:
            RefinementRunningError: another one of the same scope key is running; the message has its duration.
            RefinementOverError: this run was frozen for so long that another one has taken the session up.
            ModelError: the model failed; the calls so far stay, and the next `refine` resumes the session.
            CategoryRefusedError: the identity's role does not read the always-in-context memories.
            InvalidInputError: the scope key is none of the identity's.
        """
        key = scope_key or identity.scope_keys[0]  # the widest, the agent's
        given = {"scope_key": key, "force": force, "dry_run": dry_run}
        lease = Lease("refinement", key, uuid4())
        return cast(RefinementResult, await run_leased(self.resources, self.graphs.refinement, given, identity, lease))

    @check_arguments
    async def maintain(self, identity: AnyIdentity, *, dry_run: bool | None = None) -> MaintenanceRun:
        """Do the maintenance that is due for all memories of the identity's agent, as the daily job does.

        Memories that were not used for long are soft-deleted; memories past their retention are erased. `undo_run`
        undoes the run.

        Args:
            identity: names the agent; user and session do not matter.
            dry_run: count the changes without making them; None for the setting `maintenance_dry_run`.

        Returns:
            The record of the run, as `maintenance_runs` lists it.

        Raises:
            MaintenanceRunningError: Another run of the same agent is under way.
            MnemicError: A step failed; the others were done.
        """
        return await maintain(self.resources, identity, dry_run=dry_run)

    @check_arguments
    async def maintenance_runs(self, identity: AnyIdentity, *, limit: Limit = 100) -> list[MaintenanceRun]:
        """Return the maintenance runs of the identity's agent, the newest first: figures, no contents."""
        return await list_runs(self.resources, identity, limit=limit)

    @check_arguments
    async def refinements(self, identity: AnyIdentity, *, limit: Limit = 100) -> list[Refinement]:
        """Return the refinements of the identity's scope keys, newest first: figures only."""
        actor = Principal(self.resources.database, identity, identity.scope_keys)
        return await rollback.list_refinements(actor, limit=limit)
