"""The type of a background job, and the resources of its runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mnemic.memory.runtime.graph import AnyGraph
from mnemic.memory.runtime.resources import Resources
from mnemic.state.background import Target
from mnemic.storage.queue import JobQueue


class JobGraphs(Protocol):
    """Compiled graphs that jobs run."""

    @property
    def consolidation(self) -> AnyGraph:
        """Graph that rewrites the consolidation of a scope key."""

    @property
    def refinement(self) -> AnyGraph:
        """Graph that compresses the context memory of a scope key."""


@dataclass(frozen=True)
class Work:
    """Database, models, graphs and queue of one process that does background work."""

    resources: Resources
    graphs: JobGraphs
    queue: JobQueue


async def _nothing(work: Work, now: datetime) -> list[Target]:
    return []


async def _whole_agent(work: Work, agent_id: str, now: datetime) -> list[Target]:
    return [Target(agent_id, f"agent:{agent_id}")]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One kind of background work. Each module of `jobs` has one as `JOB`.

    A run does the work that is due at that time, so that a second run of the same job changes nothing.
    """

    name: str
    #: Does the due work of a target; returns True if another run holds the work or it waits after a failure.
    run: Callable[[Work, Target], Awaitable[bool | None]]
    #: Finds the targets with due work, at most `MAX_TARGETS`.
    find_due: Callable[[Work, datetime], Awaitable[list[Target]]] = _nothing
    #: Minutes between two calls of `find_due`.
    interval_minutes: int = 1
    #: Name of the setting with the cron line, or None if the job has no schedule.
    schedule: str | None = None
    #: Finds the targets of an agent when its schedule fires.
    find_scheduled: Callable[[Work, str, datetime], Awaitable[list[Target]]] = _whole_agent
    #: Minutes over which the schedule's runs of different tenants are spread.
    stagger_minutes: int = 0
    #: Whether work that keeps failing is given up after the setting `max_attempts`; False if the job does so itself.
    gives_up: bool = True
    #: Whether it calls models, so that it waits if the tenant's daily token budget is used up.
    calls_models: bool = False


#: Targets that one sweep queues for a job; the next sweep takes the next ones.
MAX_TARGETS = 1000
