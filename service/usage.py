"""Tokens and counts over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from mnemic.memory.governance import stats
from mnemic.memory.runtime import usage
from mnemic.memory.runtime.resources import Resources
from mnemic.state.checking import check_arguments
from mnemic.state.events import ALL_STATS_KEYS, Stats, StatsKey
from mnemic.state.identity import AnyIdentity, HostId
from mnemic.state.kinds import DailyUsage


@dataclass(frozen=True, repr=False, eq=False)
class UsageReports:
    """Tokens and counts over time of an agent, or of all agents of a tenant."""

    _resources: Resources

    @check_arguments
    async def tokens(
        self, identity: AnyIdentity, *, since: date | None = None, before: date | None = None
    ) -> list[DailyUsage]:
        """Return the tokens of the identity's agent by day, step and model, the last day first, with their costs.

        Args:
            identity: names the agent.
            since: the first day, in UTC.
            before: the day after the last one.
        """
        return await usage.daily_usage(self._resources, identity, since, before)

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
            since: the first day, in UTC.
            before: the day after the last one.
            by: columns by which the counts are added up; the others are None.
        """
        return await stats.agent_stats(self._resources, identity, since, before, by)

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
            tenant_id: as set by `admin.assign_tenant`, or `default`.
            since: as in `stats`.
            before: as in `stats`.
            by: as in `stats`.
        """
        return await stats.tenant_stats(self._resources, tenant_id, since, before, by)
