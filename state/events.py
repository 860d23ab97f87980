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
    """A number of operations. A column is None if the counts are not grouped by it."""

    measure: Measure
    #: In UTC.
    day: date | None
    #: Kind of memories, role of messages, node of events, step of tokens.
    name: str | None
    #: Operation of events.
    op: str | None = None
    #: Status of events.
    status: str | None = None
    amount: int
    #: Milliseconds of all events together; None for another measure.
    duration_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class ContextSize:
    """Size of the context memories of one kind of scope, over all its scope keys."""

    scope: str
    scope_keys: int
    #: Tokens of the largest one.
    largest_tokens: int
    total_tokens: int
    #: Scope keys above their agent's budget, for which a refinement is due.
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
    """Counts over time of one agent, or of all agents of a tenant; no contents and no ids of users."""

    counts: list[Count]
    context: list[ContextSize]
    #: Budget of the context memories of one scope key.
    context_budget_tokens: int
    #: Tokens of the tenant today, and their limit for background work; None without a limit.
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
