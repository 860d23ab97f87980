"""The `Mnemic` object: what an application opens once and holds."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, Self

from pydantic import SkipValidation

from mnemic.models.chat import UnderWay
from mnemic.models.given import taken_apart
from mnemic.operations import agent_settings, stats, usage
from mnemic.operations.governance import audit, retention, rollback
from mnemic.operations.governance.actor import Actor
from mnemic.operations.run.resources import open_resources
from mnemic.service.conversation import Conversation
from mnemic.service.explicit_memory import ExplicitMemory
from mnemic.service.governance.time_machine import TimeMachine
from mnemic.service.hosts.hosting import Hosting
from mnemic.service.worker import background_work
from mnemic.state.checking import MAX_LISTED, AnyId, Limit, Moment, check_arguments, to_uuid
from mnemic.state.errors import InvalidInputError
from mnemic.state.events import ALL_STATS_KEYS, Stats, StatsKey
from mnemic.state.governance import Erasure, Rollback, RollbackOptions
from mnemic.state.identity import AnyIdentity, HostId, Identity, to_identity
from mnemic.state.kinds import DailyUsage
from mnemic.state.records import Memory, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage.erasure import Progress
from mnemic.storage.opening import describe_database


class Mnemic(Conversation, ExplicitMemory, Hosting, TimeMachine[Identity]):
    """Long-term memory for agents. Open one with `async with Mnemic.open() as memory:`.

    Every method takes the `Identity` of the run; it sees and writes that identity's scope keys and nothing else. The
    compiled graphs stand in `graphs`. Each base class is a group of methods in a file of its own.
    """

    @classmethod
    @asynccontextmanager
    async def open(cls, **settings: Any) -> AsyncIterator[Self]:
        """Opens database and models; arguments are settings and beat the environment.

        `fast_model`, `slow_model`, `agent_model` may be chat models of LangChain's that the host has made, and
        `embedder` an `Embeddings`. Background work is done until the block ends, unless
        the setting `background` is off.

        Raises:
            ConfigurationError: a setting does not fit.
            MnemicError: the database or the embedder cannot be had; the message says what to do.
        """
        named, given = taken_apart(settings)
        async with open_resources(Settings(**named), given) as resources:
            memory = cls(resources)
            if not resources.settings.background:
                yield memory
                return
            async with background_work(resources, memory.graphs):
                yield memory

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.resources.settings

    def describe(self) -> str:
        """Model, embedder and database in use, on one line."""
        resources, database = self.resources, describe_database(self.settings)
        return f"model: {resources.models.describe()}; embedder: {resources.embedder.name}; database: {database}"

    def under_way(self) -> list[UnderWay]:
        """The requests to chat models that have not been answered yet, the oldest first: for a sign of life."""
        return self.resources.models.under_way()

    @check_arguments
    async def configure_agent(self, identity: AnyIdentity, **overrides: Any) -> None:
        """Sets what the agent overrides of the settings; others that it has set stay, and None takes one back.

        Raises:
            ConfigurationError: a name may not be overridden, or the values do not fit; nothing was written.
        """
        await agent_settings.configure_agent(self.resources, identity, overrides)

    @check_arguments
    async def assign_tenant(self, identity: AnyIdentity, tenant_id: HostId) -> None:
        """Assign the identity's agent to a tenant, whose agents share one daily token budget.

        Args:
            identity: names the agent.
            tenant_id: the tenant; that of an agent that was never assigned is `default`.
        """
        await agent_settings.assign_tenant(self.resources, identity, tenant_id)

    @check_arguments
    async def agent_settings(self, identity: AnyIdentity) -> Settings:
        """The settings in force for the identity's agent, with what it overrides."""
        return await agent_settings.agent_settings(self.resources, identity)

    @check_arguments
    async def configure_scope(self, identity: AnyIdentity, overrides: SkipValidation[ScopeSettings]) -> None:
        """Replaces what one of the identity's scope keys overrides: its name, guidance, threshold and word limit.

        Raises:
            InvalidInputError: the scope key is none of the identity's, or a value cannot be used; nothing was written.
        """
        await agent_settings.configure_scope(self.resources, identity, overrides)

    @check_arguments
    async def usage(
        self, identity: AnyIdentity, *, since: date | None = None, before: date | None = None
    ) -> list[DailyUsage]:
        """Tokens that the identity's agent has used, by day, step and model, the last day first, and what they cost.

        Args:
            identity: whose agent.
            since: from this day on, in UTC.
            before: up to the day before this one.
        """
        return await usage.daily_usage(self.resources, identity, since, before)

    @check_arguments
    async def stats(
        self,
        identity: AnyIdentity,
        *,
        since: date | None = None,
        before: date | None = None,
        by: Sequence[StatsKey] = ALL_STATS_KEYS,
    ) -> Stats:
        """Return counts over time of the identity's agent, over all its users: memories, messages, events, tokens.

        Events are kept for `events_days`. No count has contents or the id of a user.

        Args:
            identity: names the agent.
            since: from this day on, in UTC.
            before: up to the day before this one.
            by: columns by which the counts are added up; the others are None.
        """
        return await stats.agent_stats(self.resources, identity, since, before, by)

    @check_arguments
    async def tenant_stats(
        self,
        tenant_id: HostId,
        *,
        since: date | None = None,
        before: date | None = None,
        by: Sequence[StatsKey] = ALL_STATS_KEYS,
    ) -> Stats:
        """Return counts over time of all agents of a tenant, for operators; as `stats`.

        Args:
            tenant_id: as set by `assign_tenant`, or `default`.
            since: as of `stats`.
            before: as of `stats`.
            by: as of `stats`.
        """
        return await stats.tenant_stats(self.resources, tenant_id, since, before, by)

    # -- governance of what belongs to the identity's user and session; for all else there is `Administration`

    def _acting(self, whose: Identity) -> Actor:
        return Actor.person(self.resources.database, to_identity(whose))

    @check_arguments
    async def shared(self, identity: AnyIdentity, *, limit: Limit = 1000) -> list[Memory]:
        """The living memories that the identity's actor brought into its groups or the whole agent, newest first.

        Raises:
            CategoryRefusedError, InvalidInputError: as `memories`.
        """
        found = await self.memories(identity, limit=limit)
        return [row for row in found if row.author == identity.actor]

    @check_arguments
    async def unshare(
        self, identity: AnyIdentity, *, cascade: bool = False, skip_erased: bool = False, dry_run: bool = False
    ) -> Rollback:
        """Takes back as one operation what `shared` lists, and what others made of it where `cascade` says so.

        What is the person's own alone stays. An administrator can undo it.

        Args:
            identity: names the groups, too.
            cascade: as in `undo`: later operations on the same memories are undone as well, such as consolidations.
            skip_erased: as in `undo`.
            dry_run: as in `undo`.

        Raises:
            RollbackConflictError, ContentErasedError, RollbackStoppedError, InvalidInputError: as `undo`.
        """
        options = RollbackOptions(cascade=cascade, skip_erased=skip_erased, dry_run=dry_run)
        return await rollback.unshare(self._acting(identity), identity.actor, options)

    @check_arguments
    async def as_of(
        self, identity: AnyIdentity, scope_key: str, moment: Moment, *, with_closed: bool = False
    ) -> list[Memory]:
        """The memories of one of the identity's scope keys as they were at a moment, newest first.

        Of those erased since, no more than a row with the state `purged` and without content.

        Args:
            moment: as in `restore`; a seq within an operation is taken literally.
            with_closed: those too that were superseded, absorbed or soft-deleted by then.

        Raises:
            CategoryRefusedError: the identity's role has no allowlist.
            InvalidInputError: the scope key is none of the identity's, or a value cannot be used.
        """
        return await rollback.as_of(self.resources, identity, scope_key, moment, with_closed=with_closed)

    @check_arguments
    async def erase(
        self, identity: AnyIdentity, *memory_ids: AnyId, dry_run: bool = False, progress: Progress | None = None
    ) -> Erasure:
        """Erases memories of the person for good, protected ones too, with every kept message that says what they say.

        Gone are contents, vectors, and what the history holds of them; ids, times and digests stay, so that the audit
        chain still verifies. With a memory goes where its words live on among the person's own: what replaced it or was
        replaced by it, what it was merged into or made of, a consolidation that took it in (docs/erasure.md). What
        others said stays. Threads stay as they are: delete them with
        `prune_threads(..., keep_latest=False)`.

        An erasure that was broken off goes on with the next one.

        Args:
            memory_ids: what `memories` lists, with `with_closed` those too that are no longer in force, or messages of
                the person that `query` found.
            dry_run: erases nothing, and returns what goes, and what stays and why.
            progress: called after each step with how much is erased, and how much is left.

        Returns:
            What was erased; unknown, foreign and erased ids are left out.

        Raises:
            InvalidInputError: no user and no session in the identity, or no ids.
        """
        if not 0 < len(memory_ids) <= MAX_LISTED:
            raise InvalidInputError(f"memory_ids: name 1 to {MAX_LISTED} memories; `memories` lists them")
        wanted = [to_uuid(memory_id) for memory_id in memory_ids]
        return await retention.erase(self._acting(identity), wanted, dry_run=dry_run, progress=progress)

    @check_arguments
    async def erase_person(
        self, identity: AnyIdentity, *, dry_run: bool = False, progress: Progress | None = None
    ) -> Erasure:
        """Erases all that the agent has of the identity's user: memories of and about them, and what they said.

        Their messages go with the answers to them, sessions in which nobody else spoke go whole, and so does every
        memory that any of it went into, in shared scope keys too. Their threads go as well. What other people said
        stays (docs/erasure.md).

        It is done in steps, between which others write; one that was broken off goes on where it is called again.

        Args:
            dry_run: as in `erase`.
            progress: as in `erase`.

        Raises:
            InvalidInputError: no user in the identity.
        """
        return await retention.erase(self._acting(identity), None, dry_run=dry_run, progress=progress)

    @check_arguments
    def export_audit(self, identity: AnyIdentity) -> AsyncIterator[str]:
        """The lines (JSON) of a file with what happened to the person's own memories, as parts of the agent's chain.

        What it shows was not changed, moved, or taken from another chain. Whether a row shown as somebody else's is the
        person's own, only who runs the database can tell.

        Of the identity's user and session every row with its contents, where they were not erased; of all others the
        hashes alone that hold the chain together. `check_export` or sha256 alone checks it.

        Raises:
            CategoryRefusedError: the identity's role is not `owner`: this is the person's own view, and no agent's.
            InvalidInputError: no user and no session in the identity.
        """
        return audit.export(self._acting(identity))
