"""Records of operational tracking: operations, their number and duration. None of them holds contents."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import Literal, get_args
from uuid import UUID

#: Parts of the service. `explicit` stands for remember, correct and forget; `worker` for jobs.
EventNode = Literal["recall", "query", "formation", "consolidation", "refinement", "explicit", "worker"]
#: `skipped`: nothing was due, or the operation was refused.
EventStatus = Literal["ok", "error", "skipped"]
Measure = Literal["memories", "messages", "events", "tokens"]
#: Columns by which counts are added up.
StatsKey = Literal["day", "name", "op", "status"]
ALL_STATS_KEYS: tuple[StatsKey, ...] = get_args(StatsKey)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One operation of the service. Events that differ in time alone are equal."""

    agent_id: str
    node: EventNode
    #: Step of a graph, kind of change, or name of a job.
    op: str
    status: EventStatus = "ok"
    user_id: str | None = None
    session_id: str | None = None
    memory_id: UUID | None = None
    category: str | None = None
    #: Cosine similarity of the best result.
    sim: float | None = None
    #: Equal events that this one counts.
    occurrences: int = field(default=1, compare=False)
    #: Milliseconds of all occurrences together; None if they were not measured.
    duration_ms: float | None = field(default=None, compare=False)
    ts: datetime = field(default_factory=partial(datetime.now, UTC), compare=False)


@dataclass(frozen=True, kw_only=True)
class Count:
    """A number of operations. A column is None if the counts are not grouped by it.

    Attributes:
        measure: subject of the count: `memories`, `messages`, `events` or `tokens`.
        day: day in UTC.
        name: kind of memories, role of messages, node of events, step of tokens.
        op: operation of events.
        status: status of events.
        amount: the number.
        duration_ms: milliseconds of all events together; None for another measure.
    """

    measure: Measure
    day: date | None
    name: str | None
    op: str | None = None
    status: str | None = None
    amount: int
    duration_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class ContextSize:
    """Size of the context memories of one kind of scope, over all its scope keys.

    Attributes:
        scope: the scope, such as `user`.
        scope_keys: number of scope keys.
        largest_tokens: tokens of the largest one.
        total_tokens: tokens of all of them.
        over_budget: scope keys above their agent's budget, for which a refinement is due.
    """

    scope: str
    scope_keys: int
    largest_tokens: int
    total_tokens: int
    over_budget: int


@dataclass(frozen=True, kw_only=True)
class TenantTokens:
    """Tokens that the agents of a tenant have used today (UTC)."""

    tenant_id: str
    tokens: int
    #: Begin of the next day.
    next_day: datetime


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Counts over time of one agent, or of all agents of a tenant; no contents and no ids of users.

    Attributes:
        counts: the numbers, by the requested columns.
        context: sizes of the context memories by scope.
        context_budget_tokens: budget of the context memories of one scope key.
        tokens_today: tokens of the tenant today.
        tenant_daily_tokens: limit of these tokens for background work; None without a limit.
    """

    counts: list[Count]
    context: list[ContextSize]
    context_budget_tokens: int
    tokens_today: int
    tenant_daily_tokens: int | None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of the whole database, for metrics."""

    measure: Literal["jobs", "oldest_job_seconds", "failed_jobs", "model_calls", "model_tokens"]
    #: Job, or step.
    name: str
    #: Status of a job, or direction of tokens.
    status: str
    amount: float
