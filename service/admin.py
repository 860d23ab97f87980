"""Settings of agents and scope keys, and the work on memories outside a conversation."""

from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from typing_extensions import Unpack

from mnemic.memory.background import reembedding
from mnemic.memory.background.maintenance.run import list_runs, maintain
from mnemic.memory.governance import rollback
from mnemic.memory.messages.turn import form_later
from mnemic.memory.runtime import agent_settings, embedding
from mnemic.memory.runtime.graph import run_leased
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import Resources
from mnemic.models.chat import PendingRequest
from mnemic.service.graphs import Graphs
from mnemic.state.checking import Limit, check_arguments
from mnemic.state.graphs import ConsolidationOutput, Lease
from mnemic.state.identity import AnyIdentity, HostId
from mnemic.state.maintenance import MaintenanceRun
from mnemic.state.records import FilledVectors, Reembedded, ScopeChanges, ScopeSettings
from mnemic.state.refinement import Refinement
from mnemic.state.results import ConsolidationResult
from mnemic.state.settings import Settings
from mnemic.storage.opening import describe_database


@dataclass(frozen=True, repr=False, eq=False)
class Admin:
    """Settings of agents and scope keys, and the work on memories outside a conversation."""

    _resources: Resources
    _graphs: Graphs

    def describe(self) -> str:
        """Return the model, the embedder and the database in use, on one line."""
        resources = self._resources
        database = describe_database(resources.settings)
        return f"model: {resources.models.describe()}; embedder: {resources.embedder.name}; database: {database}"

    def pending_requests(self) -> list[PendingRequest]:
        """Return the requests to chat models that have no answer yet, the oldest first."""
        return self._resources.models.under_way()

    @check_arguments
    async def configure_agent(self, /, identity: AnyIdentity, **overrides: Any) -> None:
        """Override settings for the identity's agent; other overrides stay, and None removes one.

        Args:
            identity: names the agent.
            overrides: settings by name; `agent_settings` returns all of them.

        Raises:
            ConfigurationError: if a name may not be overridden, or a value does not fit; nothing was written.
        """
        await agent_settings.configure_agent(self._resources, identity, overrides)

    @check_arguments
    async def agent_settings(self, identity: AnyIdentity) -> Settings:
        """Return the settings in force for the identity's agent, with its overrides."""
        return await agent_settings.agent_settings(self._resources, identity)

    @check_arguments
    async def assign_tenant(self, identity: AnyIdentity, tenant_id: HostId) -> None:
        """Assign the identity's agent to a tenant, whose agents share one daily token budget.

        Args:
            identity: names the agent.
            tenant_id: the tenant; an agent that was never assigned belongs to `default`.
        """
        await agent_settings.assign_tenant(self._resources, identity, tenant_id)

    @check_arguments
    async def configure_scope(self, identity: AnyIdentity, scope_key: str, **changes: Unpack[ScopeChanges]) -> None:
        """Change settings of one of the identity's scope keys; others stay, and None restores the general setting.

        Args:
            identity: the owner of the scope key.
            scope_key: the scope key, such as `group:harbor`.
            changes: fields of `ScopeSettings` by name.

        Raises:
            InvalidInputError: if the scope key is none of the identity's, or a value cannot be used; nothing was
                written.
        """
        await agent_settings.configure_scope(self._resources, identity, scope_key, changes)

    @check_arguments
    async def scope_settings(self, identity: AnyIdentity, scope_key: str) -> ScopeSettings:
        """Return the settings of one of the identity's scope keys; None for a field without a setting of its own.

        Raises:
            InvalidInputError: if the scope key is none of the identity's.
        """
        return await agent_settings.scope_settings(self._resources, identity, scope_key)

    @check_arguments
    async def form_later(self, identity: AnyIdentity) -> None:
        """Start to form due messages without waiting for it; `form`, and the end of `Mnemic.open`, wait.

        A failure is a warning in the log; the messages stay pending.

        Raises:
            InvalidInputError: if the identity has no session.
        """
        form_later(self._resources, identity)

    @check_arguments
    async def consolidate(self, identity: AnyIdentity, scope_key: str, *, force: bool = False) -> ConsolidationResult:
        """Rewrite the consolidation of one of the identity's scope keys, if that is due.

        Args:
            identity: the owner of the scope key.
            scope_key: the scope key, such as `user:ana`.
            force: consolidate below the threshold too, and without the wait after a failure.
        """
        request = {"scope_key": scope_key, "force": force}
        lease = Lease("consolidation", scope_key, uuid4())
        output = await run_leased(self._resources, self._graphs.consolidation, request, identity, lease)
        return ConsolidationResult.from_output(cast(ConsolidationOutput, output))

    @check_arguments
    async def maintain(self, identity: AnyIdentity, *, dry_run: bool | None = None) -> MaintenanceRun:
        """Do the due maintenance for all memories of the identity's agent, as the daily job does.

        Memories that were not used for long are soft-deleted; memories past their retention are erased.
        `history.undo_run` undoes the run.

        Args:
            identity: names the agent; user and session do not matter.
            dry_run: count the changes without making them; None for the setting `maintenance_dry_run`.

        Returns:
            The record of the run, as `maintenance_runs` lists it.

        Raises:
            MaintenanceRunningError: if another run of the same agent is in progress.
            MnemicError: if a step failed; the other steps were done.
        """
        return await maintain(self._resources, identity, dry_run=dry_run)

    @check_arguments
    async def maintenance_runs(self, identity: AnyIdentity, *, limit: Limit = 100) -> list[MaintenanceRun]:
        """Return the maintenance runs of the identity's agent, newest first: figures, no contents."""
        return await list_runs(self._resources, identity, limit=limit)

    @check_arguments
    async def refinements(self, identity: AnyIdentity, *, limit: Limit = 100) -> list[Refinement]:
        """Return the refinements of the identity's scope keys, newest first: figures, no contents."""
        principal = Principal(self._resources.database, identity, identity.scope_keys)
        return await rollback.list_refinements(principal, limit=limit)

    @check_arguments
    async def embed_pending(self, identity: AnyIdentity) -> FilledVectors:
        """Fill the vectors of the identity's memories and messages that were stored without one.

        A text is stored without a vector if the embedder refuses it or does not answer. It is found by its words until
        then. A formation does the same in the background, after growing pauses; this method does not wait for them.

        Raises:
            EmbedderUnavailableError: if the embedder does not answer; the vectors filled so far stay.
            EmbeddingError: if a setting of the embedder is wrong.
        """
        return await embedding.embed_pending(self._resources, identity, force=True)

    @check_arguments
    async def reembed(
        self, identity: AnyIdentity | None = None, *, progress: reembedding.Progress | None = None
    ) -> Reembedded:
        """Move an agent, or all agents of the database, to the embedder of the settings, and wait for the end.

        Until all vectors of an agent are made, its questions and new memories are embedded by `previous_embedder`, if
        the settings name it. Otherwise its former memories are found by words alone. A move that was broken off goes on
        with the next call, or as background work. Any number of processes can work on it at once.

        Args:
            identity: names the agent; None for all agents.
            progress: called after each batch with the number of entries that are done, and the number that is left.

        Raises:
            EmbedderUnavailableError: if the embedder does not answer; the vectors made so far stay.
            EmbeddingError: if a setting of the embedder is wrong.
        """
        agent_id = None if identity is None else identity.agent_id
        return await reembedding.reembed(self._resources, agent_id, progress)
