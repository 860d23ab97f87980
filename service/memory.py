"""The `Mnemic` object, which an application opens once and keeps."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, Self

from pydantic import SkipValidation

from mnemic.memory.governance import audit, retention, rollback, stats
from mnemic.memory.runtime import agent_settings, usage
from mnemic.memory.runtime.principal import Principal
from mnemic.memory.runtime.resources import open_resources
from mnemic.models.chat import PendingRequest
from mnemic.models.overrides import split_overrides
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
    compiled graphs are in `graphs`. Each base class is a group of methods in a file of its own.
    """

    @classmethod
    @asynccontextmanager
    async def open(cls, **settings: Any) -> AsyncIterator[Self]:
        """Open database and models; arguments are settings and override the environment.

        `fast_model`, `slow_model`, `agent_model` may be chat models of LangChain's that the host has made, and
        `embedder` an `Embeddings`. Background work is done until the block ends, unless
        the setting `background` is off.

        Raises:
            ConfigurationError: a setting does not fit.
            MnemicError: the database or the embedder is not available; the message has the remedy.
        """
        named, given = split_overrides(settings)
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

    def under_way(self) -> list[PendingRequest]:
        """Return the requests to chat models that have no answer yet, the oldest first: for a sign of life."""
        return self.resources.models.under_way()

    @check_arguments
    async def configure_agent(self, identity: AnyIdentity, **overrides: Any) -> None:
        """Set the agent's own values of settings; its other overrides stay, and None removes one.

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
        """Return the settings in force for the identity's agent, with its overrides."""
        return await agent_settings.agent_settings(self.resources, identity)

    @check_arguments
    async def configure_scope(self, identity: AnyIdentity, overrides: SkipValidation[ScopeSettings]) -> None:
        """Replace the overrides of one of the identity's scope keys: its name, guidance, threshold and word limit.

        Raises:
            InvalidInputError: the scope key is none of the identity's, or a value cannot be used; nothing was written.
        """
        await agent_settings.configure_scope(self.resources, identity, overrides)

    @check_arguments
    async def usage(
        self, identity: AnyIdentity, *, since: date | None = None, before: date | None = None
    ) -> list[DailyUsage]:
        """Return the tokens of the identity's agent by day, step and model, the last day first, with their costs.

        Args:
            identity: names the agent.
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

    # -- governance of memories of the identity's user and session; `Administration` has that of all others

    def _acting(self, whose: Identity) -> Principal:
        return Principal.person(self.resources.database, to_identity(whose))

    @check_arguments
    async def shared(self, identity: AnyIdentity, *, limit: Limit = 1000) -> list[Memory]:
        """Return the active memories that the identity's actor shared with its groups or the whole agent, newest first.

        Raises:
            CategoryRefusedError, InvalidInputError: as `memories`.
        """
        found = await self.memories(identity, limit=limit)
        return [row for row in found if row.author == identity.actor]

    @check_arguments
    async def unshare(
        self, identity: AnyIdentity, *, cascade: bool = False, skip_erased: bool = False, dry_run: bool = False
    ) -> Rollback:
        """Withdraw the memories that `shared` lists as one operation; with `cascade`, later changes of them too.

        Memories in the person's own scope stay. An administrator can undo it.

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
        """Return the memories of one of the identity's scope keys as they were at a moment, newest first.

        A memory erased since is a row with the state `purged` and without content.

        Args:
            moment: as in `restore`; a revision within an operation is taken literally.
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
        """Erase memories of the person for good, protected ones too, with every stored message of the same content.

        Contents, vectors and the contents in the history are removed; ids, times and digests stay, so that the audit
        chain still verifies. The person's other memories with its words go as well: its successors and predecessors,
        merges, and consolidations that absorbed it (docs/erasure.md). Messages of other people stay. Threads stay:
        delete them with `prune_threads(..., keep_latest=False)`.

        An erasure that broke off is completed by the next one.

        Args:
            memory_ids: ids from `memories`, also with `with_closed`, or of messages of the person from `query`.
            dry_run: erase nothing, and return the items that would go, and those that stay with the reason.
            progress: called after each step with the numbers of erased and remaining items.

        Returns:
            The erased items, without unknown, foreign and already erased ids.

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
        """Erase all data that the agent has of the identity's user: memories of and about them, and their messages.

        Their messages go with the answers to them, sessions without other speakers go whole, and so does every memory
        that rests on any of it, in shared scope keys too. Their threads go as well. Messages of other people stay
        (docs/erasure.md).

        It works in steps, between which others write; call it again to complete one that broke off.

        Args:
            dry_run: as in `erase`.
            progress: as in `erase`.

        Raises:
            InvalidInputError: no user in the identity.
        """
        return await retention.erase(self._acting(identity), None, dry_run=dry_run, progress=progress)

    @check_arguments
    def export_audit(self, identity: AnyIdentity) -> AsyncIterator[str]:
        """Yield the lines (JSON) of a file with the events of the person's own memories, as parts of the agent's chain.

        Rows of the identity's user and session have their contents, unless erased; all other rows have only the
        hashes of the chain. `check_export`, or sha256 alone, checks that no row was changed, moved or taken from
        another chain. Only the operator of the database can tell whether a row without contents is the person's own.

        Raises:
            CategoryRefusedError: the identity's role is not `owner`; the export is the person's view, not an agent's.
            InvalidInputError: no user and no session in the identity.
        """
        return audit.export(self._acting(identity))
